// The nft of several Debian releases, which scripts/nft-versions.mjs keeps in the user's cache folder.
import { existsSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'

/** 1.0.6, 1.1.3 and the newest. */
export type NftSuite = 'bookworm' | 'trixie' | 'sid'
export const nftSuites: readonly NftSuite[] = ['bookworm', 'trixie', 'sid']

const { XDG_CACHE_HOME: configured = '' } = process.env
const cache = configured === '' ? join(homedir(), '.cache') : configured

/** The command of a release's nft, by that release's loader and libraries. Throws if it is not in the cache. */
export function nftOf(suite: NftSuite): readonly string[] {
  const folder = join(cache, 'viaduct', `nft2-${suite}`)
  const program = join(folder, 'usr/sbin/nft')
  const loaders = ['lib64', 'usr/lib64', 'lib/x86_64-linux-gnu', 'usr/lib/x86_64-linux-gnu'].map((place) =>
    join(folder, place, 'ld-linux-x86-64.so.2'),
  )
  const loader = loaders.find((path) => existsSync(path))
  if (loader === undefined || !existsSync(program))
    throw new Error(`the cache has no nft of ${suite}: run node scripts/setup.mjs`)
  const libraries = ['usr/lib/x86_64-linux-gnu', 'lib/x86_64-linux-gnu'].map((place) => join(folder, place))
  const extensions = `XTABLES_LIBDIR=${join(folder, 'usr/lib/x86_64-linux-gnu/xtables')}`
  return ['env', extensions, loader, '--library-path', libraries.join(':'), program]
}
