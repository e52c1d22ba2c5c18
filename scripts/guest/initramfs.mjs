// The guest's first file system: busybox, init.sh, and the modules that 9p over virtio needs.
import { chmodSync, copyFileSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { must, StepError } from '../steps.mjs'

const folders = ['bin', 'm', 'r', 'proc', 'dev']
const modules = ['virtio_pci', '9pnet_virtio', '9p']

/** @param {{ folder: string, release: string, init: string, target: string }} options */
export async function buildInitramfs({ folder, release, init, target }) {
  const tree = await mkdtemp(join(tmpdir(), 'viaduct-initramfs-'))
  try {
    for (const name of folders) mkdirSync(join(tree, name))
    copyFileSync('/bin/busybox', join(tree, 'bin/busybox'))
    writeFileSync(join(tree, 'init'), init)
    chmodSync(join(tree, 'init'), 0o755)
    const files = await moduleFiles(folder, release)
    for (const [index, file] of files.entries()) {
      const number = String(index).padStart(2, '0')
      await placeModule(file, join(tree, 'm', `${number}-${basename(file, '.xz')}`))
    }
    const archive = join(folder, basename(tree))
    await must(['sh', '-c', 'find . | cpio --quiet -o -H newc > "$0"', archive], { cwd: tree })
    renameSync(archive, target) // atomically, because another run may be booting from it
  } finally {
    rmSync(tree, { recursive: true, force: true })
  }
}

/**
 * @param {string} folder
 * @param {string} release
 * @returns {Promise<readonly string[]>} in the order in which they have to be loaded
 */
async function moduleFiles(folder, release) {
  const files = new Set()
  for (const module of modules) {
    const output = await must(['modprobe', '-d', folder, '-S', release, '--show-depends', module])
    for (const match of output.matchAll(/^insmod (\S+)/gm)) files.add(match[1])
  }
  return [...files]
}

/**
 * Copies a module. busybox loads no compressed ones, which Debian has since 13.
 * @param {string} file
 * @param {string} target
 */
async function placeModule(file, target) {
  if (file.endsWith('.ko')) copyFileSync(file, target)
  else if (file.endsWith('.ko.xz')) await must(['sh', '-c', 'xz -dc "$0" > "$1"', file, target])
  else throw new StepError(`a kernel module in a form that the guest cannot read: ${file}`)
}
