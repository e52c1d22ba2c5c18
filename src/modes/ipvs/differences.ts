// The kernel's part of a route against the desired one.
import { formatEndpoint, type IpFamily } from '../../address.js'
import { KernelError } from '../../errors.js'
import {
  type Ipset,
  IpsetEntryCursor,
  type Ipvs,
  RealServerCursor,
  type Routes,
  VirtualServerCursor,
} from '../../kernel/index.js'
import { type DesiredSetEntry, type DesiredVirtualServer, setName, setSpec } from '../../layers/ipvs/index.js'
import { entryText, serviceText } from './describe.js'
import { missingVips } from '../../layers/vips/index.js'

interface ReadKernel {
  readonly ipvs: Pick<Ipvs, 'read'>
  readonly ipset: Pick<Ipset, 'entries'>
  readonly routes: Pick<Routes, 'dumpLocalRoutes'>
}

/**
 * The virtual servers, real servers, set entries and routes of VIPs that the kernel lacks, and real servers with another weight, a sentence
 * each. It reads these virtual servers alone, the sets of the entries, and the local host routes. Throws KernelError.
 */
export async function differences(
  servers: readonly DesiredVirtualServer[],
  { ipvs, ipset, routes }: ReadKernel,
): Promise<readonly string[]> {
  const [family = 'ipv4'] = servers.map(({ key }) => key.family)
  const vips = servers.flatMap(({ key, bindAddress }) =>
    bindAddress && 'address' in key ? [key.address] : [],
  )
  return [
    ...(await serverDifferences(servers, ipvs)),
    ...(await entryDifferences(servers, family, ipset)),
    ...(await missingVips(vips, family, routes)),
  ]
}

async function serverDifferences(
  servers: readonly DesiredVirtualServer[],
  ipvs: ReadKernel['ipvs'],
): Promise<readonly string[]> {
  const { virtualServers, realServers } = await ipvs.read(servers.map(({ key }) => key))
  const present = new VirtualServerCursor(virtualServers)
  const reals = new RealServerCursor(realServers)
  const found = new Map<string, ReadonlyMap<string, number>>()
  for (let index = 0; index < present.length; index++) {
    const first = present.firstReal(index)
    const places = Array.from({ length: present.realCount(index) }, (_, i) => first + i)
    const weights = places.map(
      (real) => [formatEndpoint(reals.address(real), reals.port(real)), reals.weight(real)] as const,
    )
    found.set(serviceText(present.key(index)), new Map(weights))
  }
  return servers.flatMap(({ key, realServers: desired }) => {
    const server = serviceText(key)
    const kernel = found.get(server)
    if (kernel === undefined) return [`virtual server ${server} is missing`]
    return [...desired].flatMap(({ key: { address, port }, settings: { weight } }) => {
      const real = formatEndpoint(address, port)
      const name = `real server ${real} of virtual server ${server}`
      const weightNow = kernel.get(real)
      if (weightNow === undefined) return [`${name} is missing`]
      return weightNow === weight ? [] : [`${name} has weight ${weightNow}, not ${weight}`]
    })
  })
}

async function entryDifferences(
  servers: readonly DesiredVirtualServer[],
  family: IpFamily,
  ipset: ReadKernel['ipset'],
): Promise<readonly string[]> {
  const bySet = new Map<DesiredSetEntry['set'], Map<string, DesiredSetEntry['entry']>>()
  for (const { set, entry } of servers.flatMap(({ entries }) => entries)) {
    // The kernel has the network of every address as two halves.
    if (entry.prefixLength === 0) continue
    const entries = bySet.get(set) ?? new Map<string, DesiredSetEntry['entry']>()
    bySet.set(set, entries.set(entryText(entry), entry))
  }
  const found = await Promise.all(
    [...bySet].map(async ([set, entries]) => {
      const name = setName(set, family)
      const present = await entriesOf(name, ipset)
      if (present === undefined) return [`set ${name} is missing`]
      const missing = missingOf(entries, new IpsetEntryCursor(present, setSpec(set).type))
      return missing.map((text) => `entry ${text} of set ${name} is missing`)
    }),
  )
  return found.flat()
}

async function entriesOf(name: string, ipset: ReadKernel['ipset']): Promise<Uint8Array | undefined> {
  try {
    return await ipset.entries(name)
  } catch (error) {
    if (error instanceof KernelError && error.code === 'ENOENT') return undefined
    throw error
  }
}

/** Compares ports first: they are numbers, and texts of 10,000 addresses take time. */
function missingOf(
  wanted: ReadonlyMap<string, DesiredSetEntry['entry']>,
  present: IpsetEntryCursor,
): readonly string[] {
  const missing = new Map(wanted)
  for (let index = 0; index < present.length && missing.size > 0; index++) {
    for (const [text, { address, port }] of missing) {
      if (port !== undefined && present.port(index) !== port) continue
      if (address !== undefined && present.address(index) !== address) continue
      if (entryText(present.entry(index)) === text) missing.delete(text)
    }
  }
  return [...missing.keys()]
}
