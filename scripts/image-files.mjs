// Lays out the files that the image adds to its base: dist/, its launchers and its licences. The Dockerfile adds Node.
// Usage: node scripts/image-files.mjs FOLDER
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { isMain, root, runMain, StepError } from './steps.mjs'

/** Development dependencies whose code is in the addon. */
const inAddon = ['node_modules/node-addon-api', 'node_modules/node-api-headers']

/**
 * The program of `kube-proxy` and `viaduct`. The first is at the path in kubeadm's DaemonSet, so that a change of the image suffices
 * there; the second runs the commands: kubectl exec POD -- viaduct status.
 */
const launcher = "#!/usr/local/bin/node\nrequire('/opt/viaduct/agent.js')\n"

/**
 * The path of a package that another one imports: in the nearest node_modules.
 * @param {Record<string, object>} packages @param {string} from @param {string} name @returns {string | undefined} absent: optional
 */
function resolvePackage(packages, from, name) {
  const path = `${from === '' ? '' : `${from}/`}node_modules/${name}`
  if (path in packages) return path
  if (from === '') return undefined
  // A package in node_modules itself has no folder of another package above it.
  return resolvePackage(packages, from.slice(0, Math.max(0, from.lastIndexOf('/node_modules/'))), name)
}

/**
 * Paths of some packages in node_modules, and of those that they import.
 * @param {Record<string, { dependencies?: object, optionalDependencies?: object }>} packages of package-lock.json
 * @param {readonly string[]} names
 * @returns {ReadonlySet<string>}
 */
export function withImported(packages, names) {
  const paths = new Set(names.map((name) => `node_modules/${name}`))
  // A set also visits the members that are added meanwhile.
  for (const path of paths) {
    const { dependencies = {}, optionalDependencies = {} } = packages[path]
    for (const name of Object.keys({ ...dependencies, ...optionalDependencies })) {
      const found = resolvePackage(packages, path, name)
      if (found !== undefined) paths.add(found)
    }
  }
  return paths
}

/** Paths of the packages in node_modules whose code is shipped: those that package.json names as bundled, and those that they import. */
function shippedPackages() {
  const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'))
  const { bundled } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  const shipped = new Set([...withImported(packages, bundled), ...inAddon])
  return Object.keys(packages).filter((path) => shipped.has(path) && existsSync(join(root, path)))
}

/**
 * The licence of a package: the texts in its folder, otherwise the name in its package.json.
 * @param {string} path
 */
function licenceOf(path) {
  const folder = join(root, path)
  const { name, version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
  const texts = readdirSync(folder)
    .filter((file) => /^(?:licen[cs]e|notice|copying)/i.test(file))
    .toSorted()
    .map((file) => readFileSync(join(folder, file), 'utf8').trim())
  if (texts.length === 0 && typeof license !== 'string') throw new StepError(`${path} names no licence`)
  return [`== ${name} ${version}: ${license}`, ...texts].join('\n\n')
}

/** The licences of all packages whose code is shipped. */
export function npmLicences() {
  return `${shippedPackages().map(licenceOf).join('\n\n')}\n`
}

async function main() {
  const folder = process.argv[2]
  if (folder === undefined) throw new StepError('usage: node scripts/image-files.mjs FOLDER')
  const [programs, licences] = [join(folder, 'usr/local/bin'), join(folder, 'usr/share/doc/viaduct')]
  for (const path of [programs, licences]) mkdirSync(path, { recursive: true })
  cpSync(join(root, 'dist'), join(folder, 'opt/viaduct'), { recursive: true })
  for (const name of ['kube-proxy', 'viaduct']) writeFileSync(join(programs, name), launcher, { mode: 0o755 })
  cpSync(join(root, 'LICENSE'), join(licences, 'LICENSE'))
  writeFileSync(join(licences, 'LICENSES-npm'), npmLicences())
}

if (isMain(import.meta.url)) await runMain(main)
