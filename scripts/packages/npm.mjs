// The scripts `prepack` and `postpack` of package.json. The first writes LICENSES-npm, and into package.json the platform of the addon in
// dist/; the second takes the platform out again, since the tree itself builds on others.
// Usage: node scripts/packages/npm.mjs prepack|postpack
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { npmLicences } from '../image-files.mjs'
import { isMain, read, root, runMain, StepError } from '../steps.mjs'

/** Throws StepError without dist/. */
function prepack() {
  if (!existsSync(join(root, 'dist/viaduct.node'))) throw new StepError('no dist/: run `npm run build` first')
  writeFileSync(join(root, 'LICENSES-npm'), npmLicences())
  const { glibcVersionRuntime } = process.report.getReport().header
  changePackage({ cpu: [process.arch], libc: [glibcVersionRuntime === undefined ? 'musl' : 'glibc'] })
}

function postpack() {
  changePackage({ cpu: undefined, libc: undefined })
}

/** Writes fields of package.json at once, since other programs read it meanwhile. @param {object} fields absent: undefined */
function changePackage(fields) {
  const path = join(root, 'package.json')
  const changed = { ...JSON.parse(readFileSync(path, 'utf8')), ...fields }
  writeFileSync(`${path}.next`, `${JSON.stringify(changed, undefined, 2)}\n`)
  renameSync(`${path}.next`, path)
}

/** Runs `npm pack`. Needs dist/. @returns {Promise<string>} the package's path */
export async function packNpm() {
  const target = join(root, 'out/packages')
  mkdirSync(target, { recursive: true })
  try {
    const printed = await read(['npm', 'pack', '--silent', '--pack-destination', target], { cwd: root })
    return join(target, printed.split('\n').at(-1))
  } finally {
    // npm does not run it after a failure.
    postpack()
  }
}

if (isMain(import.meta.url)) await runMain(process.argv[2] === 'postpack' ? postpack : prepack)
