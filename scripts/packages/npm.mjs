// The script `prepack` of package.json: what `npm pack` needs besides dist/. Writes LICENSES-npm.
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { npmLicences } from '../image-files.mjs'
import { isMain, read, root, runMain, StepError } from '../steps.mjs'

/** Throws StepError without dist/. */
function prepack() {
  if (!existsSync(join(root, 'dist/viaduct.node'))) throw new StepError('no dist/: run `npm run build` first')
  writeFileSync(join(root, 'LICENSES-npm'), npmLicences())
}

/** Runs `npm pack`. Needs dist/. @returns {Promise<string>} the package's path */
export async function packNpm() {
  const target = join(root, 'out/packages')
  mkdirSync(target, { recursive: true })
  const printed = await read(['npm', 'pack', '--silent', '--pack-destination', target], { cwd: root })
  return join(target, printed.split('\n').at(-1))
}

if (isMain(import.meta.url)) await runMain(prepack)
