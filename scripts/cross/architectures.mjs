// The processors besides x64 for which the addon is compiled.
import { join } from 'node:path'
import { root, StepError } from '../steps.mjs'

/**
 * @typedef {object} Architecture
 * @property {string} triplet of Debian's cross compiler
 * @property {string} processor as uname(2) and qemu-user name it
 */

/**
 * Debian has a cross compiler for each.
 * @type {ReadonlyMap<string, Architecture>}
 */
export const architectures = new Map([
  ['arm64', { triplet: 'aarch64-linux-gnu', processor: 'aarch64' }],
  ['ppc64le', { triplet: 'powerpc64le-linux-gnu', processor: 'ppc64le' }],
  ['s390x', { triplet: 's390x-linux-gnu', processor: 's390x' }],
])

/**
 * Throws StepError for an unknown name.
 * @param {string} name
 * @returns {Architecture}
 */
export function architecture(name) {
  const found = architectures.get(name)
  if (found === undefined)
    throw new StepError(`no architecture ${name}; there are ${[...architectures.keys()].join(', ')}`)
  return found
}

/** The folder of all that is built for an architecture. @param {string} name */
export function crossFolder(name) {
  return join(root, 'out/cross', name)
}

/** Options of cmake for Debian's cross compiler. @param {string} name of the architecture */
export function crossOptions(name) {
  const { triplet, processor } = architecture(name)
  return [
    '-DCMAKE_SYSTEM_NAME=Linux',
    `-DCMAKE_SYSTEM_PROCESSOR=${processor}`,
    `-DCMAKE_CXX_COMPILER=${triplet}-g++`,
  ]
}

/** Words that run the command after them on an emulated processor. @param {string} name of the architecture */
export function emulated(name) {
  const { triplet, processor } = architecture(name)
  return [`qemu-${processor}`, '-L', `/usr/${triplet}`]
}
