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
    files.forEach((file, index) => {
      const number = String(index).padStart(2, '0')
      copyFileSync(file, join(tree, 'm', `${number}-${basename(file)}`))
    })
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
  const compressed = [...files].find((file) => !file.endsWith('.ko'))
  if (compressed !== undefined)
    throw new StepError(`compressed kernel module, which busybox cannot load: ${compressed}`)
  return [...files]
}
