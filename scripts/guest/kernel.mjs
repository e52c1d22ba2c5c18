// A stock Debian kernel for the guest. It is unpacked into the user's cache folder, not installed.
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { must, root, run, StepError } from '../steps.mjs'
import { buildInitramfs } from './initramfs.mjs'
import { requireVersion, unpackKernel } from './packages.mjs'

/**
 * @typedef {object} GuestKernel
 * @property {string} folder holds lib/modules/<release>
 * @property {string} image
 * @property {string} initramfs
 * @property {string} accelerator arguments of qemu: 'kvm' or 'tcg,thread=multi'
 */

/** Version of the folder's layout and the initramfs. A new version ignores old caches. */
const layout = 1
/** Limit for a boot that tests KVM. It usually takes one second. The addon may be compiled at the same time. */
const probeSeconds = 20
const initScript = join(root, 'scripts/guest/init.sh')

/** @returns {string} */
export function cacheFolder() {
  return join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'viaduct')
}

/**
 * The kernel of the cache. Fetches it from the machine's Debian archive if there is none.
 * @param {string} [version] one of `versions`; default: the kernel of the machine's own Debian
 * @returns {Promise<GuestKernel>}
 */
export async function prepareKernel(version) {
  if (version !== undefined) requireVersion(version)
  if (process.arch !== 'x64')
    throw new StepError(`the guest runs on x64 only, this machine is ${process.arch}`)
  const cache = cacheFolder()
  mkdirSync(cache, { recursive: true })
  const folder = findKernel(cache, version) ?? (await fetchKernel(cache, version))
  const kernel = {
    folder,
    image: join(folder, 'vmlinuz'),
    initramfs: join(folder, 'initramfs'),
    accelerator: '',
  }
  await refreshInitramfs(kernel)
  return { ...kernel, accelerator: await chooseAccelerator(kernel) }
}

/**
 * The start of the names of a version's folders. The release follows.
 * @param {string | undefined} version
 */
function prefixOf(version) {
  return version === undefined ? `kernel${layout}-` : `kernel${layout}@${version}-`
}

/**
 * @param {string} cache
 * @param {string | undefined} version
 */
function findKernel(cache, version) {
  const names = readdirSync(cache).filter((name) => name.startsWith(prefixOf(version)))
  const newest = names.toSorted().at(-1)
  return newest === undefined ? undefined : join(cache, newest)
}

/**
 * Builds in its own folder and renames it, so that no other run finds an incomplete kernel.
 * @param {string} cache
 * @param {string | undefined} version
 */
async function fetchKernel(cache, version) {
  const temporary = await mkdtemp(join(cache, 'fetch-'))
  try {
    await unpackKernel(temporary, version)
    const release = placeModules(temporary)
    if (version !== undefined && !release.startsWith(version.replace(/x$/, '')))
      throw new StepError(`Debian has no kernel ${version} any more where the guest looks: it has ${release}`)
    await must(['depmod', '-b', temporary, release])
    renameSync(imageIn(temporary, release), join(temporary, 'vmlinuz'))
    writeFileSync(join(temporary, 'release'), release)
    for (const leftover of ['boot', 'usr'])
      rmSync(join(temporary, leftover), { recursive: true, force: true })
    const folder = join(cache, `${prefixOf(version)}${release}`)
    if (!existsSync(folder)) renameSync(temporary, folder)
    return folder
  } finally {
    rmSync(temporary, { recursive: true, force: true })
  }
}

/**
 * Moves the modules to lib/modules, where modprobe looks. Packages since Debian 13 have them in usr/lib/modules.
 * @param {string} folder
 * @returns {string} the release of the kernel
 */
function placeModules(folder) {
  const place = join(folder, 'lib/modules')
  const merged = join(folder, 'usr', 'lib/modules')
  if (existsSync(merged)) {
    mkdirSync(join(folder, 'lib'), { recursive: true })
    renameSync(merged, place)
  }
  const release = existsSync(place) ? readdirSync(place)[0] : undefined
  if (release === undefined) throw new StepError('the kernel package holds no modules')
  return release
}

/**
 * The file of the kernel itself. Packages since Linux 7 have it beside the modules.
 * @param {string} folder
 * @param {string} release
 */
function imageIn(folder, release) {
  const places = [join(folder, 'boot', `vmlinuz-${release}`), join(folder, 'lib/modules', release, 'vmlinuz')]
  const image = places.find((place) => existsSync(place))
  if (image === undefined) throw new StepError('the kernel package holds no vmlinuz')
  return image
}

/** @param {GuestKernel} kernel */
async function refreshInitramfs(kernel) {
  const init = readFileSync(initScript, 'utf8')
  const stamp = join(kernel.folder, 'initramfs.init')
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === init) return
  const release = readFileSync(join(kernel.folder, 'release'), 'utf8')
  await buildInitramfs({ folder: kernel.folder, release, init, target: kernel.initramfs })
  writeFileSync(stamp, init)
}

/**
 * KVM is 10 times faster, but in a nested virtual machine the device may exist and hang. So a boot tests it once.
 * @param {GuestKernel} kernel
 */
async function chooseAccelerator(kernel) {
  const software = 'tcg,thread=multi'
  if (!existsSync('/dev/kvm')) return software
  const answer = join(kernel.folder, 'accelerator')
  if (!existsSync(answer)) {
    const probe = [
      'qemu-system-x86_64',
      '-accel',
      'kvm',
      '-cpu',
      'host',
      '-m',
      '512M',
      '-nographic',
      '-no-reboot',
    ]
    const boot = ['-nic', 'none', '-kernel', kernel.image, '-initrd', kernel.initramfs]
    const line = 'console=ttyS0 quiet panic=-1 viaduct.probe'
    const { status, output } = await run([...probe, ...boot, '-append', line], {
      timeoutSeconds: probeSeconds,
    })
    writeFileSync(answer, status === 0 && output.includes('viaduct-probe-done') ? 'kvm' : software)
  }
  return readFileSync(answer, 'utf8')
}
