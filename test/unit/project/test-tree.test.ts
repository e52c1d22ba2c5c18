// The tests of a room are in the folder with its name, and no test relies on elapsed time.
import assert from 'node:assert/strict'
import { dirname } from 'node:path'
import { describe, it } from 'node:test'
import { treeFiles, treeText } from '../../support/tree.js'

/** Tests of the tree itself and of the tools of the tests. */
const ownFolders = ['test/unit/project', 'test/unit/support']

/** `top` and all folders below it that contain files. */
function foldersBelow(top: string, files: readonly string[]): ReadonlySet<string> {
  const folders = new Set<string>()
  for (const file of files) {
    for (let folder = dirname(file); folder.startsWith(top); folder = dirname(folder)) folders.add(folder)
  }
  return folders
}

describe('the unit tests', () => {
  it('have one folder per room of src, and no other folder', () => {
    const rooms = foldersBelow('src', treeFiles(/^src\/.*\.c?ts$/))
    const folders = [...foldersBelow('test/unit', treeFiles(/^test\/unit\/.*\.ts$/))]
    const strays = folders.filter((folder) => !rooms.has(folder.replace('test/unit', 'src')))
    assert.deepEqual(strays.toSorted(), ownFolders)
  })
})

describe('no test', () => {
  const tests = treeFiles(/^test\/.*\.(?:test|contract)\.ts$/)

  const forbidden = [
    {
      name: 'waits for time to pass',
      words:
        /(?<!\.)\bsetTimeout\(|\bsetTimeout\b.*timers\/promises|timers\/promises'\)\.setTimeout|'sleep', '\d/,
    },
    {
      name: 'is skipped, marked as todo, or run alone',
      words: /\b(?:it|test|describe)\.(?:skip|todo|only)\b/,
    },
  ]
  for (const { name, words } of forbidden) {
    it(name, () => {
      const found = tests.filter((path) => words.test(treeText(path)))
      assert.deepEqual(found, [])
    })
  }
})
