// Makes out/packages/viaduct-VERSION.tgz: an npm package with dist/, the prebuilt addon and licences. It has no dependencies.
import { chmodSync, cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { npmLicences } from '../image-files.mjs'
import { isMain, read, root, runMain } from '../steps.mjs'

const launcher = "#!/usr/bin/env node\nrequire('../dist/agent.js')\n"

/** Needs dist/. @returns {Promise<string>} the package's path */
export async function packNpm() {
  const target = join(root, 'out/packages')
  const folder = join(target, 'npm')
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(join(folder, 'bin'), { recursive: true })
  cpSync(join(root, 'dist'), join(folder, 'dist'), { recursive: true })
  writeFileSync(join(folder, 'bin/viaduct.js'), launcher)
  chmodSync(join(folder, 'bin/viaduct.js'), 0o755)
  cpSync(join(root, 'LICENSE'), join(folder, 'LICENSE'))
  writeFileSync(join(folder, 'LICENSES-npm'), npmLicences())
  const { name, version, description, license, engines } = JSON.parse(
    readFileSync(join(root, 'package.json'), 'utf8'),
  )
  const platform = { os: ['linux'], cpu: [process.arch], libc: ['glibc'] }
  const document = { name, version, description, license, engines, ...platform, bin: 'bin/viaduct.js' }
  writeFileSync(join(folder, 'package.json'), `${JSON.stringify(document, undefined, 2)}\n`)
  writeFileSync(
    join(folder, 'README.md'),
    `# ${name}\n\n${description}. \`npx ${name} --help\` prints the flags.\n`,
  )
  const printed = await read(['npm', 'pack', '--silent', '--pack-destination', target], { cwd: folder })
  return join(target, printed.split('\n').at(-1))
}

if (isMain(import.meta.url)) await runMain(async () => console.log(await packNpm()))
