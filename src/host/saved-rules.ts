// Files from which nftables.service loads rules, and Viaduct's table in them: nft does not always read the saved table back.
import { readdir, readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { StateReporter } from '../log.js'

/** Reads of the file system. */
export interface SavedFiles {
  /** undefined: there is no such file, or it may not be read. */
  readonly read: (path: string) => Promise<string | undefined>
  /** The names in a folder; none if it cannot be read. */
  readonly list: (folder: string) => Promise<readonly string[]>
}

/** ExecStart of nftables.service: of Debian, of Fedora and RHEL. */
const starts = ['/etc/nftables.conf', '/etc/sysconfig/nftables.conf']
/** `table ip kube-proxy {`, `add table ip6 kube-proxy`. */
const ownTable = /^\s*(?:add\s+|create\s+)?table\s+(?:ip6?\s+)?"?kube-proxy"?\s*(?:\{|;|$)/mu
const includes = /^\s*include\s+"(?<path>[^"]+)"/gmu
/** Files that include each other have an end. */
const mostFiles = 100

export const realFiles: SavedFiles = {
  read: async (path) => await readFile(path, 'utf8').catch(() => undefined),
  list: async (folder) => await readdir(folder).catch(() => []),
}

/** The files that nftables.service loads and that have the table `kube-proxy`. Follows `include`. */
export async function filesWithTable(files: SavedFiles = realFiles): Promise<readonly string[]> {
  const paths = new Set(starts)
  const found: string[] = []
  for (const path of paths) {
    const text = await files.read(path)
    if (text === undefined) continue
    if (ownTable.test(text)) found.push(path)
    for (const { groups } of text.matchAll(includes))
      for (const included of await matching(groups?.['path'] ?? '', files))
        if (paths.size < mostFiles) paths.add(included)
  }
  return found
}

/** The files that a path of `include` names: `*` and `?` in its last part, and no hidden files, as by glob(3). */
async function matching(path: string, { list }: SavedFiles): Promise<readonly string[]> {
  const full = join(path.startsWith('/') ? '/' : '/etc', path)
  if (!/[*?]/u.test(full)) return [full]
  const folder = dirname(full)
  const name = full.slice(folder.length + 1).replaceAll(/[.+^${}()|[\]\\]/gu, String.raw`\$&`)
  const pattern = new RegExp(`^${name.replaceAll('*', '.*').replaceAll('?', '.')}$`, 'u')
  return (await list(folder))
    .filter((each) => pattern.test(each) && !each.startsWith('.'))
    .map((each) => join(folder, each))
}

/** The consequence of a saved table, one sentence. */
export const savedTableConsequence =
  'nft does not read back all that it lists: version 1.0.6 refuses its own JSON, and what a newer version listed. It then refuses the whole file, so that the other rules in it, such as a firewall, are not loaded at the next boot.'
/** The remedy, one sentence. */
export const savedTableRemedy =
  'Remove the tables kube-proxy from the file, and save only your own tables: nft list table inet filter.'

/** Reports the files, and their end. */
export async function reportSavedTables(conflicts: StateReporter, files: SavedFiles): Promise<void> {
  const found = await filesWithTable(files)
  const text = `${found.join(', ')}, which nftables.service loads, has Viaduct's table kube-proxy: ${savedTableConsequence} ${savedTableRemedy}`
  conflicts.report('saved table', found.length === 0 ? undefined : { text })
}
