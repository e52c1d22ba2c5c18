// The folders for buildah's images and containers: in the user's cache folder, separate from those of the machine's own buildah.
import { mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { cacheFolder } from '../guest/kernel.mjs'
import { must } from '../steps.mjs'

// Plain folders, because overlayfs cannot be mounted on overlayfs, and a cache inside a container is on overlayfs.
const driver = 'vfs'
const images = join(cacheFolder(), 'images-vfs')
/** Images for later runs. No image is built here. */
const kept = join(images, 'kept')
const keptState = join(images, 'kept-state')
/** Images and containers of this process. */
const own = join(images, `run-${process.pid}`)

const storage = ['--storage-driver', driver, '--root', join(own, 'storage'), '--runroot', join(own, 'state')]

/** Runs buildah on images and containers of this process. Kept images are readable. @param {readonly string[]} args */
export function buildah(...args) {
  return ['buildah', ...storage, '--storage-opt', `${driver}.imagestore=${kept}`, ...args]
}

/** Keeps an image for later runs. @param {string} name of an image that is not based on a kept one */
export async function keep(name) {
  // Without the option for kept images: one process cannot use the same folder read-only and for writing.
  const target = `containers-storage:[${driver}@${kept}+${keptState}]${name}`
  await must(['buildah', ...storage, 'push', name, target])
}

/**
 * Runs the work, then removes its images and containers, and those of killed runs.
 * @template T
 * @param {() => Promise<T>} work that calls buildah
 * @returns {Promise<T>}
 */
export async function withStorage(work) {
  mkdirSync(images, { recursive: true, mode: 0o700 })
  for (const name of readdirSync(images)) {
    const pid = /^run-(\d+)$/.exec(name)?.[1]
    if (pid !== undefined && !isAlive(Number(pid))) await remove(join(images, name))
  }
  for (const folder of [kept, keptState]) mkdirSync(folder, { recursive: true })
  try {
    return await work()
  } finally {
    await remove(own)
  }
}

/**
 * Removes a folder. A killed build leaves /proc, /sys and others of its container mounted in it.
 * @param {string} folder
 */
async function remove(folder) {
  const mounts = readFileSync('/proc/mounts', 'utf8')
    .split('\n')
    .map((line) => line.split(' ')[1] ?? '')
    .filter((path) => path.startsWith(`${folder}/`))
  for (const path of mounts.toReversed()) await must(['umount', path])
  rmSync(folder, { recursive: true, force: true })
}

/** @param {number} pid */
function isAlive(pid) {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error.code !== 'ESRCH'
  }
}
