// The packages whose licences are shipped (scripts/image-files.mjs).
import assert from 'node:assert/strict'
import { it } from 'node:test'
import { pathToFileURL } from 'node:url'
import { join } from 'node:path'
import { mustRun } from '../../support/processes.js'
import { treeRoot } from '../../support/tree.js'

/** Prints the paths. */
const program = `
import { withImported } from '${pathToFileURL(join(treeRoot, 'scripts/image-files.mjs')).href}'
console.log([...withImported(JSON.parse(process.argv[1]), ['a'])].toSorted().join(' '))`

const c = { 'node_modules/c': {} }
const cases: readonly (readonly [name: string, packages: object, imported: readonly string[]])[] = [
  ['from a package at the top', { 'node_modules/a': { dependencies: { c: '1' } }, ...c }, ['node_modules/c']],
  [
    'from a package in the folder of another one',
    {
      'node_modules/a': { dependencies: { b: '1' } },
      'node_modules/a/node_modules/b': { dependencies: { c: '1' } },
      ...c,
    },
    ['node_modules/a/node_modules/b', 'node_modules/c'],
  ],
  // Its path began with a slash, so it was missed, and the package at the top was taken.
  [
    'from the folder above, not from the top',
    {
      'node_modules/@x/a': {},
      'node_modules/a': { dependencies: { '@x/b': '1' } },
      'node_modules/a/node_modules/@x/b': { dependencies: { c: '1' } },
      'node_modules/a/node_modules/c': {},
      ...c,
    },
    ['node_modules/a/node_modules/@x/b', 'node_modules/a/node_modules/c'],
  ],
  ['from present packages only', { 'node_modules/a': { optionalDependencies: { c: '1' } } }, []],
]
for (const [name, packages, imported] of cases)
  it(`the licences of imported packages come ${name}`, async () => {
    const command = [process.execPath, '--input-type=module', '--eval', program, JSON.stringify(packages)]
    assert.deepEqual((await mustRun(command)).trim().split(' '), ['node_modules/a', ...imported])
  })
