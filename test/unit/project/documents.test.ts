import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { describe, it } from 'node:test'
import { proseOf } from '../../support/program-words.js'
import { treeFiles, treeRoot, treeText } from '../../support/tree.js'

const documents = treeFiles(/\.md$/)
const packageJson = readPackage()

function readPackage(): {
  readonly scripts: readonly string[]
  readonly shipped: readonly string[]
  readonly versions: readonly string[]
} {
  const text: unknown = JSON.parse(treeText('package.json'))
  const section = (name: string): readonly [string, string][] =>
    Object.entries(Object(Reflect.get(Object(text), name)))
  return {
    scripts: section('scripts').map(([name]) => name),
    shipped: section('bundled').map(([, name]) => name),
    versions: section('devDependencies').map(([, version]) => version),
  }
}

function matches(path: string, pattern: RegExp): readonly string[] {
  return [...treeText(path).matchAll(pattern)].map((match) => match[1] ?? '')
}

/** The anchor that GitHub makes of a heading. */
function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replaceAll(/[^\w\- ]/g, '')
    .replaceAll(' ', '-')
}

describe('the documents', () => {
  it('include README.md and CONTRIBUTING.md', () =>
    assert.ok(documents.includes('README.md') && documents.includes('CONTRIBUTING.md')))

  it('link to files that exist', () => {
    const broken = documents.flatMap((path) =>
      matches(path, /\]\(([^)#:]+)(?:#[^)]*)?\)/g)
        .filter((link) => !existsSync(join(treeRoot, normalize(join(dirname(path), link)))))
        .map((link) => `${path}: ${link}`),
    )
    assert.deepEqual(broken, [])
  })

  it('number the decisions without a gap, except the numbers that CONTRIBUTING.md names as unused', () => {
    const [, first, second] =
      /ever had the numbers (\d+) and (\d+)\./u.exec(treeText('CONTRIBUTING.md')) ?? []
    const used = treeFiles(/^docs\/adr\/.*\.md$/).map((path) =>
      Number(path.slice('docs/adr/'.length).slice(0, 4)),
    )
    const all = [...used, Number(first), Number(second)].toSorted((a, b) => a - b)
    assert.deepEqual(
      all,
      Array.from(all, (_, index) => index + 1),
    )
  })

  it('link to headings that exist', () => {
    const broken = documents.flatMap((path) =>
      [...treeText(path).matchAll(/\]\(([\w./-]*)#([^)]+)\)/g)]
        .filter(([, file = '', anchor = '']) => {
          const target = file === '' ? path : normalize(join(dirname(path), file))
          return !matches(target, /^#+ (.*)$/gm)
            .map(anchorOf)
            .includes(anchor)
        })
        .map(([link]) => `${path}: ${link}`),
    )
    assert.deepEqual(broken, [])
  })

  it('name files and folders that exist', () => {
    const inTree = /`((?:src|native|scripts|test|docs|bench|deploy|examples|\.ci)\/[\w./-]*)`/g
    const broken = documents.flatMap((path) =>
      matches(path, inTree)
        .filter((name) => !existsSync(join(treeRoot, name)))
        .map((name) => `${path}: ${name}`),
    )
    assert.deepEqual(broken, [])
  })

  it('name source files that exist, also by the end of a path or with *', () => {
    const places = treeFiles(/./).map((path) => `/${path}`)
    const exists = (name: string): boolean => {
      const end = new RegExp(`/${name.replaceAll('.', String.raw`\.`).replaceAll('*', '[^/]+')}$`)
      return places.some((place) => end.test(place))
    }
    const sourceFile = /`((?!dist\/|out\/)(?:[\w.*-]+\/)*[\w*-][\w.*-]*\.(?:ts|mjs|cts|cc|gyp|sh|scenario))`/g
    const broken = documents.flatMap((path) =>
      matches(path, sourceFile)
        .filter((name) => !exists(name))
        .map((name) => `${path}: ${name}`),
    )
    assert.deepEqual(broken, [])
  })

  it('name npm scripts that exist', () => {
    const named = documents.flatMap((path) => matches(path, /npm run ([\w:]+)/g))
    assert.deepEqual(
      named.filter((name) => !packageJson.scripts.includes(name)),
      [],
    )
  })

  it('number only rules and quirks that have a row in docs/parity.md or docs/traffic.md', () => {
    const rows = ['docs/parity.md', 'docs/traffic.md'].flatMap((path) =>
      matches(path, /^\| (F-\d{3}|Q-\d{2}) \|/gm),
    )
    const unknown = documents.flatMap((path) =>
      matches(path, /\b(F-\d{3}|Q-\d{2})\b/g)
        .filter((id) => !rows.includes(id))
        .map((id) => `${path}: ${id}`),
    )
    assert.deepEqual(unknown, [])
  })

  it('have lines of at most 140 characters, except in tables and blocks of code', () => {
    const tooLong = documents
      .filter((path) => path !== 'CHANGELOG.md')
      .flatMap((path) =>
        proseOf(treeText(path))
          .split('\n')
          .filter((line) => line.length > 140 && !line.trimStart().startsWith('|'))
          .map((line) => `${path}: ${line}`),
      )
    assert.deepEqual(tooLong, [])
  })

  it('have up-to-date generated tables (node scripts/docs.mjs writes them)', () => {
    const { status, stderr } = spawnSync(process.execPath, ['scripts/docs.mjs', '--check'], {
      cwd: treeRoot,
      encoding: 'utf8',
    })
    assert.deepEqual([status, stderr], [0, ''])
  })

  it('number each decision once', () => {
    const numbers = treeFiles(/^docs\/adr\/.*\.md$/).map((path) =>
      path.slice('docs/adr/'.length, 'docs/adr/0000'.length),
    )
    assert.deepEqual(numbers, [...new Set(numbers)])
  })
})

describe('the package', () => {
  it('names exact versions', () => {
    assert.deepEqual(
      packageJson.versions.filter((version) => !/^\d+\.\d+\.\d+$/.test(version)),
      [],
    )
  })

  it('keeps the addresses of registries out of the lockfile', () => {
    assert.doesNotMatch(treeText('package-lock.json'), /"resolved"/)
  })

  it('can load every package of the shipped agent on this Node', async () => {
    for (const name of packageJson.shipped) assert.ok(await import(name))
  })
})

describe('the text of the tree', () => {
  it('has no test outside the folders of the suites', () => {
    const run = /^test\/(?:unit|scenario|contract|kernel|guest|image|cross|packages|page)\//
    assert.deepEqual(
      treeFiles(/\.test\.ts$/).filter((path) => !run.test(path)),
      [],
    )
  })

  it('contains no absolute path of a machine', () => {
    // The pattern is written in pieces, so that this line does not match.
    const somewhere = new RegExp(`(?<![\\w.])/(?:${['work', 'home', 'root'].join('|')})/[a-z]`)
    const texts = treeFiles(/\.(?:ts|mjs|cc|c|h|sh|md|json|ya?ml|txt|gyp)$/).filter(
      (path) => path !== 'package-lock.json',
    )
    assert.deepEqual(
      texts.filter((path) => somewhere.test(treeText(path))),
      [],
    )
  })
})
