// Builds another commit of this tree, for runs of two versions. Usage: node scripts/upgrade/build.mjs COMMIT FOLDER
import { existsSync, mkdirSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { useCompilerCache } from '../compiler-cache.mjs'
import { isMain, must, read, root, run, runMain, StepError } from '../steps.mjs'
import { buildPath, npmBin } from '../setup.mjs'

/**
 * The full name of a commit. Throws StepError if this tree's history does not have it.
 * @param {string} name a tag, a branch or the digits of a commit
 */
export async function commitNamed(name) {
  const { status, stdout } = await run(['git', 'rev-parse', '--verify', '--quiet', `${name}^{commit}`])
  if (status !== 0) throw new StepError(`${name} is no commit of this tree: name a tag, a branch or a commit`)
  return stdout.trim()
}

/**
 * Checks a commit out into a new folder and builds its dist/, with ccache. npm's packages are those of this tree if both lock files agree.
 * @param {string} commit its full name
 * @param {string} folder must not exist
 * @returns {Promise<string>} the path of its dist/
 */
export async function buildCommit(commit, folder) {
  if (existsSync(folder)) throw new StepError(`${folder} exists: name a new folder`)
  useCompilerCache()
  mkdirSync(folder, { recursive: true })
  await must(['sh', '-c', 'git archive "$1" | tar --extract --directory "$2"', 'sh', commit, folder])
  if (await hasSamePackages(commit)) symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
  else await must(['npm', 'ci', '--no-audit', '--no-fund'], { cwd: folder })
  const env = { ...buildPath(), CCACHE_BASEDIR: folder, VIADUCT_COMMIT: commit }
  await must([process.execPath, npmBin('cmake-js'), 'compile'], { cwd: folder, env })
  await must([process.execPath, 'scripts/bundle.mjs'], { cwd: folder, env })
  return join(folder, 'dist')
}

/** Whether npm's packages of a commit are those of this tree. @param {string} commit */
async function hasSamePackages(commit) {
  return (await lockOf(commit)) === (await lockOf('HEAD'))
}

/** The content of a commit's lock file, by its name in git. @param {string} commit */
async function lockOf(commit) {
  return await read(['git', 'rev-parse', `${commit}:package-lock.json`])
}

async function main() {
  const [name, folder] = process.argv.slice(2)
  if (name === undefined || folder === undefined) throw new StepError('usage: build.mjs COMMIT FOLDER')
  console.log(await buildCommit(await commitNamed(name), folder))
}

if (isMain(import.meta.url)) await runMain(main)
