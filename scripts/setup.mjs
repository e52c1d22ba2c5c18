// Prepares a Debian machine for the demo or the tests. Does only missing steps.
// Usage: node scripts/setup.mjs [demo|test]
import { existsSync, readFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { useCompilerCache } from './compiler-cache.mjs'
import { prepareKernel } from './guest/kernel.mjs'
import { prepareBases } from './image/bases.mjs'
import { prepareNftVersions } from './nft-versions.mjs'
import { isMain, must, root, run, runMain, step, StepError } from './steps.mjs'

const buildPackages = ['g++', 'make', 'cmake', 'ninja-build']
const guestPackages = ['qemu-system-x86', 'busybox-static', 'cpio', 'kmod', 'xz-utils']
const kernelTools = [
  'ipvsadm',
  'iproute2',
  'strace',
  'util-linux',
  'iptables',
  'nftables',
  'ipset',
  'conntrack',
]
/** Tools that make certificates for the fake API server. */
const certificateTools = ['openssl']
const nativeChecks = [
  'clang-14',
  'libclang-rt-14-dev',
  'clang-format-14',
  'clang-tidy-14',
  'llvm-14',
  'libgtest-dev',
  'binutils',
  'python3',
]

const compilerCache = ['ccache']
const crossTools = ['g++-aarch64-linux-gnu', 'googletest', 'qemu-user']
const packagingTools = ['buildah', 'mmdebstrap', 'systemd', 'lintian', 'man-db']
/** For the tests of the status page. */
const browser = ['chromium']

/** Debian packages by purpose. */
const packages = {
  demo: [...buildPackages, ...guestPackages, ...kernelTools, ...certificateTools],
  test: [
    ...buildPackages,
    ...guestPackages,
    ...kernelTools,
    ...certificateTools,
    ...nativeChecks,
    ...compilerCache,
    ...packagingTools,
    ...crossTools,
    ...browser,
  ],
}

/**
 * Runs all steps of a set-up, in order.
 * @param {keyof typeof packages} purpose
 */
export async function setUp(purpose) {
  await installPackages(purpose)
  await build()
}

/** Installs missing packages of Debian and npm. @param {keyof typeof packages} purpose */
export async function installPackages(purpose) {
  checkNode()
  await installDebianPackages(packages[purpose])
  if (purpose === 'test') useCompilerCache()
  await installNpmPackages()
}

/** Builds the addon, the TypeScript and the bundle. */
export async function build() {
  await step('addon: cmake-js compile', () =>
    must([process.execPath, npmBin('cmake-js'), 'compile'], { env: buildPath() }),
  )
  await step('TypeScript: tsc into out/ts', () =>
    must([process.execPath, npmBin('typescript', 'tsc'), '-p', 'tsconfig.json']),
  )
  await step('bundle: agent.js, its bundle and the addon into dist', () =>
    must([process.execPath, 'scripts/bundle.mjs']),
  )
}

/** Fetches the guest's kernel once per machine. */
export async function setUpGuest() {
  await step("guest: a Debian kernel in the user's cache folder", () => prepareKernel())
}

function checkNode() {
  const [major, minor] = process.versions.node.split('.').map(Number)
  if (major > 20 || (major === 20 && minor >= 20)) return
  throw new StepError(`Node 20.20 or later is needed, this is ${process.versions.node}`)
}

/** @param {readonly string[]} wanted */
async function installDebianPackages(wanted) {
  const missing = await missingPackages(wanted)
  if (missing === undefined)
    throw new StepError(`this is no Debian (no dpkg-query): install by hand ${wanted.join(', ')}`)
  if (missing.length === 0) return
  const advice = `missing Debian packages: ${missing.join(' ')}`
  if (process.getuid?.() !== 0)
    throw new StepError(`${advice}; run this as root, or first: apt-get install ${missing.join(' ')}`)
  if ((await run(['apt-get', '--version'])).status !== 0)
    throw new StepError(`${advice}; there is no apt-get to install them`)
  await step(`apt: installing ${missing.join(' ')}`, () => aptInstall(missing))
}

/**
 * @param {readonly string[]} wanted
 * @returns {Promise<readonly string[] | undefined>} undefined: no dpkg on this machine
 */
async function missingPackages(wanted) {
  const { status, output } = await run([
    'dpkg-query',
    '-W',
    '-f',
    '${Package} ${db:Status-Status}\\n',
    ...wanted,
  ])
  if (status === 127) return undefined
  const installed = new Set([...output.matchAll(/^(\S+) installed$/gm)].map((match) => match[1]))
  return wanted.filter((name) => !installed.has(name))
}

/** @param {readonly string[]} names */
async function aptInstall(names) {
  const env = { DEBIAN_FRONTEND: 'noninteractive' }
  const install = [
    'apt-get',
    'install',
    '-y',
    '--no-install-recommends',
    '-o',
    'Acquire::Retries=3',
    ...names,
  ]
  // The package lists may be missing or stale. They are fetched only after a failed attempt.
  if ((await run(install, { env })).status === 0) return
  await must(['apt-get', 'update', '-o', 'Acquire::Retries=3'], { env })
  await must(install, { env })
}

async function installNpmPackages() {
  if (npmPackagesMatch()) return
  const npm = process.env.npm_execpath === undefined ? ['npm'] : [process.execPath, process.env.npm_execpath]
  await step('npm ci: the packages of package-lock.json', () =>
    must([...npm, 'ci', '--no-audit', '--no-fund']),
  )
}

/** Whether node_modules has the packages of the lockfile. Packages for other platforms may be absent. */
function npmPackagesMatch() {
  const installedPath = join(root, 'node_modules/.package-lock.json')
  if (!existsSync(installedPath)) return false
  const wanted = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')).packages
  const installed = JSON.parse(readFileSync(installedPath, 'utf8')).packages
  return Object.entries(wanted).every(([path, entry]) => {
    if (path === '') return true
    const found = installed[path]
    return found === undefined ? entry.optional === true : found.version === entry.version
  })
}

/**
 * @param {string} name npm package
 * @param {string} [command] default: the package's name
 * @returns {string} path of the command's script
 */
export function npmBin(name, command = name) {
  const folder = join(root, 'node_modules', name)
  const { bin } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
  return join(folder, typeof bin === 'string' ? bin : bin[command])
}

/** An environment whose PATH has the commands of npm packages and the running Node. */
export function buildPath() {
  return {
    PATH: [join(root, 'node_modules/.bin'), join(process.execPath, '..'), process.env.PATH].join(delimiter),
  }
}

async function main() {
  const purpose = process.argv[2] ?? 'test'
  if (purpose !== 'demo' && purpose !== 'test')
    throw new StepError('usage: node scripts/setup.mjs [demo|test]')
  await setUp(purpose)
  await setUpGuest()
  if (purpose === 'test') {
    await step("nft of several Debian releases, in the user's cache folder", prepareNftVersions)
    await step("image: Debian and Node as its bases, in the user's cache folder", prepareBases)
  }
}

if (isMain(import.meta.url)) await runMain(main)
