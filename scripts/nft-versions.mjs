// The nft of several Debian releases, for tests that load a listing with each. They are unpacked into the user's cache folder, not installed.
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { join } from 'node:path'
import { cacheFolder } from './guest/kernel.mjs'
import { openSuites } from './guest/packages.mjs'
import { must, StepError } from './steps.mjs'

/** Version of the folder's layout. A new version ignores old caches. test/support/nft-versions.ts has the same. */
const layout = 2
const suites = ['bookworm', 'trixie', 'sid']
/**
 * nft, the libraries that it and its loader need, and the extensions of iptables, by which it prints rules of iptables-nft: they are those
 * of its own release.
 */
const packages = [
  'nftables',
  'libnftables1',
  'libnftnl11',
  'libmnl0',
  'libc6',
  'libjansson4',
  'libedit2',
  'libgmp10',
  'libtinfo6',
  'libbsd0',
  'libmd0',
  'libxtables12',
  'iptables',
]

/** Fetches the nft of each release once per machine, from the machine's Debian archive. */
export async function prepareNftVersions() {
  if (process.arch !== 'x64')
    throw new StepError(`nft is fetched for x64 only, this machine is ${process.arch}`)
  mkdirSync(cacheFolder(), { recursive: true })
  for (const suite of suites) await prepareNft(suite)
}

/**
 * Builds in its own folder and renames it, so that no other run finds an incomplete one.
 * @param {string} suite
 */
async function prepareNft(suite) {
  const folder = join(cacheFolder(), `nft${layout}-${suite}`)
  if (existsSync(folder)) return
  const temporary = await mkdtemp(join(cacheFolder(), 'fetch-'))
  try {
    const options = await openSuites(join(temporary, 'apt'), [suite])
    const debs = join(temporary, 'debs')
    mkdirSync(debs)
    await must(['apt-get', ...options, 'download', ...packages], { cwd: debs })
    const files = readdirSync(debs).filter((file) => file.endsWith('.deb'))
    if (files.length !== packages.length)
      throw new StepError(`apt-get download of nft of ${suite} left ${files.length} packages`)
    for (const file of files) await must(['dpkg', '-x', join(debs, file), join(temporary, 'root')])
    if (!existsSync(folder)) renameSync(join(temporary, 'root'), folder)
  } finally {
    rmSync(temporary, { recursive: true, force: true })
  }
}
