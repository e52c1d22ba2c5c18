// A stock Debian kernel for the guest. It is unpacked into the user's cache folder, not installed.
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { must, root, run, StepError } from '../steps.mjs'
import { buildInitramfs } from './initramfs.mjs'

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
 * @returns {Promise<GuestKernel>}
 */
export async function prepareKernel() {
  if (process.arch !== 'x64')
    throw new StepError(`the guest runs on x64 only, this machine is ${process.arch}`)
  const cache = cacheFolder()
  mkdirSync(cache, { recursive: true })
  const folder = findKernel(cache) ?? (await fetchKernel(cache))
  const kernel = {
    folder,
    image: join(folder, 'vmlinuz'),
    initramfs: join(folder, 'initramfs'),
    accelerator: '',
  }
  await refreshInitramfs(kernel)
  return { ...kernel, accelerator: await chooseAccelerator(kernel) }
}

/** @param {string} cache */
function findKernel(cache) {
  const names = readdirSync(cache).filter((name) => name.startsWith(`kernel${layout}-`))
  const newest = names.toSorted().at(-1)
  return newest === undefined ? undefined : join(cache, newest)
}

/**
 * Builds in its own folder and renames it, so that no other run finds an incomplete kernel.
 * @param {string} cache
 */
async function fetchKernel(cache) {
  const temporary = await mkdtemp(join(cache, 'fetch-'))
  try {
    await downloadImage(temporary)
    const release = readdirSync(join(temporary, 'lib/modules'))[0]
    if (release === undefined) throw new StepError('the kernel package holds no modules')
    await must(['depmod', '-b', temporary, release])
    renameSync(join(temporary, 'boot', `vmlinuz-${release}`), join(temporary, 'vmlinuz'))
    writeFileSync(join(temporary, 'release'), release)
    for (const leftover of ['boot', 'usr'])
      rmSync(join(temporary, leftover), { recursive: true, force: true })
    const folder = join(cache, `kernel${layout}-${release}`)
    if (!existsSync(folder)) renameSync(temporary, folder)
    return folder
  } finally {
    rmSync(temporary, { recursive: true, force: true })
  }
}

/** @param {string} folder */
async function downloadImage(folder) {
  const name = (await imagePackage()) ?? (await must(['apt-get', 'update']), await imagePackage())
  if (name === undefined)
    throw new StepError('apt knows no linux-image-amd64: add a Debian archive to its sources')
  await must(['apt-get', 'download', name], { cwd: folder })
  const archive = readdirSync(folder).find((file) => file.endsWith('.deb'))
  if (archive === undefined) throw new StepError(`apt-get download ${name} left no package`)
  await must(['dpkg', '-x', join(folder, archive), folder])
  rmSync(join(folder, archive))
}

/** The package of the current image, from the meta package. Not the "cloud" flavour, which lacks 9p. */
async function imagePackage() {
  const { output } = await run(['apt-cache', 'depends', 'linux-image-amd64'])
  return /Depends: (linux-image-\S+-amd64)/.exec(output)?.[1]
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
