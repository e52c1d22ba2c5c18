import type { SavedFiles } from '../../src/host/index.js'

/** A machine on which nftables.service loads no file. */
export const noFiles: SavedFiles = {
  read: async () => await Promise.resolve(undefined),
  list: async () => await Promise.resolve([]),
}
