// Makes the shipped artefact: dist/agent.js, one file, and dist/viaduct.node beside it.
import { copyFileSync, existsSync, mkdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { isMain, root, runMain, StepError } from './steps.mjs'

// pino and commander are CommonJS: their calls of require() need one in an ES module.
const banner = `import { createRequire as viaductCreateRequire } from 'node:module'
const require = viaductCreateRequire(import.meta.url)`

/** Bundles src/agent.ts and copies the addon. Throws StepError when the addon has not been built. */
export async function bundle() {
  const { build } = await import('esbuild')
  const dist = join(root, 'dist')
  mkdirSync(dist, { recursive: true })
  await build({
    absWorkingDir: root,
    entryPoints: ['src/agent.ts'],
    outfile: join(dist, 'agent.js'),
    bundle: true,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    external: ['*.node'],
    banner: { js: banner },
    logLevel: 'silent',
  }).catch((error) => {
    throw new StepError(error.message)
  })
  const addon = ['build/Release/viaduct.node', 'build/viaduct.node']
    .map((path) => join(root, path))
    .find(existsSync)
  if (addon === undefined) throw new StepError('no addon to ship: run `npm run build:native` first')
  replaceFile(addon, join(dist, 'viaduct.node'))
}

/** A copy under another name first: an agent that runs has the old file mapped, and dies when its bytes change. */
function replaceFile(source, target) {
  const fresh = `${target}.${process.pid}`
  try {
    copyFileSync(source, fresh)
    renameSync(fresh, target)
  } finally {
    rmSync(fresh, { force: true })
  }
}

if (isMain(import.meta.url)) await runMain(bundle)
