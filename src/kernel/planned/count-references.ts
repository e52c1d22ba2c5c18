import type { KernelTables } from '../xtables/kernel-tables.js'

/** The rules of x_tables that refer to each set, by the set's name. */
export async function countReferences(tables: KernelTables): Promise<ReadonlyMap<string, number>> {
  const counts = new Map<string, number>()
  for (const rule of await allRules(tables)) {
    const name = /--ma(?:tch|p)-set (?<name>\S+)/u.exec(rule)?.groups?.['name']
    if (name !== undefined) counts.set(name, (counts.get(name) ?? 0) + 1)
  }
  return counts
}

async function allRules(tables: KernelTables): Promise<readonly string[]> {
  const found: (readonly string[])[] = []
  for (const family of ['ipv4', 'ipv6'] as const)
    for (const flavour of ['legacy', 'nft'] as const)
      for (const table of await tables.active(family, flavour)) {
        const listing = await tables.list({ family, table }, flavour)
        found.push(...listing.map(({ rules }) => rules))
      }
  return found.flat()
}
