// Where buildah keeps images and containers: below the user's cache folder, apart from what the machine's own buildah has.
import { mkdirSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { cacheFolder } from '../guest/kernel.mjs'
import { must } from '../steps.mjs'

// Plain folders: overlayfs cannot be mounted on overlayfs, which is what a cache inside of a container lies on.
const driver = 'vfs'
const images = join(cacheFolder(), 'images-vfs')
/** Images that later runs take; nothing is built in it. */
const kept = join(images, 'kept')
const keptState = join(images, 'kept-state')
/** All that this process makes. */
const own = join(images, `run-${process.pid}`)

const storage = ['--storage-driver', driver, '--root', join(own, 'storage'), '--runroot', join(own, 'state')]

/** Runs buildah on images and containers of this process; what is kept can be read. @param {readonly string[]} args */
export function buildah(...args) {
  return ['buildah', ...storage, '--storage-opt', `${driver}.imagestore=${kept}`, ...args]
}

/** Lets later runs have an image. @param {string} name of one that stands on none of the kept ones */
export async function keep(name) {
  // Without the option for what is kept: one process cannot have the same folder for reading alone and for writing.
  const target = `containers-storage:[${driver}@${kept}+${keptState}]${name}`
  await must(['buildah', ...storage, 'push', name, target])
}

/**
 * Removes what the work has made when it ends, and what runs left that were killed.
 * @template T
 * @param {() => Promise<T>} work that calls buildah
 * @returns {Promise<T>}
 */
export async function withStorage(work) {
  mkdirSync(images, { recursive: true, mode: 0o700 })
  for (const name of readdirSync(images)) {
    const pid = /^run-(\d+)$/.exec(name)?.[1]
    if (pid !== undefined && !isAlive(Number(pid))) rmSync(join(images, name), { recursive: true })
  }
  for (const folder of [kept, keptState]) mkdirSync(folder, { recursive: true })
  try {
    return await work()
  } finally {
    rmSync(own, { recursive: true, force: true })
  }
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
