// The Debian packages of a kernel: finds those of a version, downloads and unpacks them. Nothing is installed.
import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { must, read, run, StepError } from '../steps.mjs'

/** For each version of `--kernel`, the Debian suites whose current kernel it is. */
const suites = Object.freeze({
  '5.10': ['bullseye', 'bullseye-security'],
  6.1: ['bookworm', 'bookworm-security'],
  6.12: ['trixie'],
  '7.x': ['trixie-backports'],
})

/** The versions of kernels that the guest can be asked for. */
export const versions = Object.keys(suites).toSorted(compareVersions)

/**
 * Throws StepError if the guest cannot be asked for the version.
 * @param {string} version
 */
export function requireVersion(version) {
  if (!versions.includes(version))
    throw new StepError(`no kernel ${version} for the guest, only ${versions.join(', ')}`)
}

/** The package that depends on the suite's current kernel. Not the "cloud" flavour, which lacks 9p. */
const metaPackage = 'linux-image-amd64'

/**
 * Unpacks the packages of a kernel into the folder.
 * @param {string} folder
 * @param {string | undefined} version one of `versions`; undefined: the kernel of the machine's own Debian
 */
export async function unpackKernel(folder, version) {
  const apt = join(folder, 'apt')
  const options = version === undefined ? [] : await openSuites(apt, suites[version])
  const names = await kernelPackages(options)
  const debs = join(folder, 'debs')
  mkdirSync(debs)
  await must(['apt-get', ...options, 'download', ...names], { cwd: debs })
  const files = readdirSync(debs).filter((file) => file.endsWith('.deb'))
  if (files.length !== names.length)
    throw new StepError(`apt-get download ${names.join(' ')} left ${files.length} packages`)
  for (const file of files) await must(['dpkg', '-x', join(debs, file), folder])
  for (const leftover of [apt, debs]) rmSync(leftover, { recursive: true, force: true })
}

/**
 * Reads the lists of suites into a folder of their own, from the Debian archives that the machine uses. The machine's own lists stay.
 * @param {string} folder
 * @param {readonly string[]} names
 * @returns {Promise<readonly string[]>} the options with which apt reads the folder
 */
export async function openSuites(folder, names) {
  const sources = join(folder, 'sources.list')
  for (const each of ['lists/partial', 'cache/archives/partial'])
    mkdirSync(join(folder, each), { recursive: true })
  const keys = '/usr/share/keyrings/debian-archive-keyring.gpg'
  const places = await Promise.all(names.map(async (name) => `${await archiveOf(name)} ${name} main`))
  writeFileSync(sources, places.map((place) => `deb [arch=amd64 signed-by=${keys}] ${place}\n`).join(''))
  writeFileSync(join(folder, 'status'), '')
  const settings = {
    'Dir::Etc::SourceList': sources,
    'Dir::Etc::SourceParts': '-',
    'Dir::State::Lists': join(folder, 'lists'),
    'Dir::State::status': join(folder, 'status'),
    'Dir::Cache': join(folder, 'cache'),
    'Acquire::Languages': 'none',
  }
  const options = Object.entries(settings).flatMap(([name, value]) => ['-o', `${name}=${value}`])
  await must(['apt-get', ...options, 'update'])
  return options
}

/**
 * The address of the Debian archive, among the machine's sources, that has a suite.
 * @param {string} suite
 */
async function archiveOf(suite) {
  const label = suite.endsWith('-security') ? 'Debian-Security' : 'Debian'
  const targets = ['indextargets', '--format', '$(REPO_URI)', 'Created-By: Packages', `Label: ${label}`]
  const [archive = ''] = (await read(['apt-get', ...targets])).split('\n')
  if (archive === '') throw new StepError(`apt has no archive of ${label}: add one to its sources`)
  return archive
}

/**
 * The packages with the files of the current kernel. Since Linux 7 the image is a package that only depends on others.
 * @param {readonly string[]} options
 */
export async function kernelPackages(options) {
  const [image] = await dependencies(options, metaPackage)
  if (image !== undefined) return [image, ...(await dependencies(options, image))]
  // The machine's lists may be absent.
  if (options.length === 0) await must(['apt-get', 'update'])
  const [later] = await dependencies(options, metaPackage)
  if (later === undefined)
    throw new StepError(`apt knows no ${metaPackage}: add a Debian archive to its sources`)
  return [later, ...(await dependencies(options, later))]
}

/**
 * The packages of one kernel on which a package depends.
 * @param {readonly string[]} options
 * @param {string} name
 */
async function dependencies(options, name) {
  const { output } = await run(['apt-cache', ...options, 'depends', '--important', name])
  return [...output.matchAll(/Depends: (linux-(?:image|base|binary|modules)-\d\S*-amd64)$/gm)].map(
    ([, dependency]) => dependency,
  )
}

/**
 * @param {string} a
 * @param {string} b
 */
function compareVersions(a, b) {
  return a.localeCompare(b, 'en', { numeric: true })
}
