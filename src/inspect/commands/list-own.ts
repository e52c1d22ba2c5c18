// Listings of kernel objects in the syntax of the tools: those named as kube-proxy's, and Viaduct's routes. Reads only.
import type { IpFamily } from '../../address.js'
import {
  describeSet,
  IpsetEntryCursor,
  type IpsetType,
  ipsetShapes,
  type Kernel,
  type NfOp,
  type NfSet,
  type NfTableKey,
  printElements,
  printTransaction,
  RealServerCursor,
  RouteCursor,
  viaductRouteProtocol,
  VirtualServerCursor,
  type XtListing,
} from '../../kernel/index.js'
import { printExtensions, printIpsetEntry } from './print-ipset.js'
import { printIpvsOp } from './print-ipvs.js'
import { printRouteOp } from './print-route.js'

const families: readonly IpFamily[] = ['ipv4', 'ipv6']

/** Lines without newline, made one by one, so that a reader may stop. */
export type Lines = AsyncGenerator<string>

/** Tables of nf_tables with this name, as commands of `nft -f`. `setNamed`: the set's fields; the elements of unknown sets are left out. */
export async function* listNft(
  { nftables }: Pick<Kernel, 'nftables'>,
  name: string,
  setNamed: (family: IpFamily, set: string) => NfSet | undefined,
): Lines {
  for (const family of families)
    for (const { table } of await nftables.tables(family))
      if (table === name) yield* listTable(nftables, { family, table }, setNamed)
}

async function* listTable(
  nftables: Kernel['nftables'],
  table: NfTableKey,
  setNamed: (family: IpFamily, set: string) => NfSet | undefined,
): Lines {
  yield* printed([{ op: 'add-table', table }], [])
  const names = (await nftables.sets(table)).map(({ set }) => set)
  const sets = names.flatMap((name) => setNamed(table.family, name) ?? [])
  yield* printed(
    sets.map((set) => ({ op: 'add-set', set })),
    sets,
  )
  for (const set of sets) {
    for (const text of printElements(await nftables.elements(set)))
      yield `add element ${describeSet(set)} { ${text} }`
  }
  for (const counter of await nftables.counters(table)) {
    const { packets, bytes } = counter
    yield `add counter ${table.family === 'ipv4' ? 'ip' : 'ip6'} ${table.table} ${counter.counter} { packets ${packets} bytes ${bytes} ; }`
  }
  const chains = await nftables.chains(table)
  yield* printed(
    chains.map((chain) => ({ op: 'add-chain', chain })),
    sets,
  )
  for (const { chain } of chains) {
    const rules = await nftables.rules({ ...table, chain })
    yield* printed(
      rules.map((rule) => ({ op: 'add-rule', rule })),
      sets,
    )
  }
}

function* printed(ops: readonly NfOp[], sets: readonly NfSet[]): Generator<string> {
  for (const op of ops) yield printTransaction([op], sets).trimEnd()
}

/** Chains KUBE-… of existing tables, and rules that jump to them, as iptables-save prints them. */
export async function* listXtables(kernel: Pick<Kernel, 'activeTables' | 'listTable'>): Lines {
  for (const flavour of ['legacy', 'nft'] as const)
    for (const family of families)
      for (const table of await kernel.activeTables(family, flavour)) {
        yield `# ${toolOf(family)}-${flavour}-save`
        yield* listChains(table, await kernel.listTable({ family, table }, flavour))
      }
}

function* listChains(table: string, chains: XtListing): Generator<string> {
  yield `*${table}`
  for (const { chain, policy, rules } of chains) {
    const isOwn = chain.startsWith('KUBE-')
    if (!isOwn && policy === undefined) continue
    yield `:${chain} ${policy ?? '-'} [0:0]`
    const shown = isOwn ? rules : rules.filter((rule) => rule.includes('-j KUBE-'))
    for (const rule of shown) yield `-A ${chain} ${rule}`
  }
  yield 'COMMIT'
}

function toolOf(family: IpFamily): string {
  return family === 'ipv4' ? 'iptables' : 'ip6tables'
}

/** Sets KUBE-… with their entries, as commands of `ipset restore`. Sizes of hash tables and comments of entries are not read. */
export async function* listIpsets({ ipset }: Pick<Kernel, 'ipset'>): Lines {
  for (const header of await ipset.sets()) {
    const { name, type, family, maxElements, references, elements } = header
    if (!name.startsWith('KUBE-')) continue
    const of = family === undefined ? '' : ` family ${family === 'ipv4' ? 'inet' : 'inet6'}`
    yield `# ${name}: ${elements} entries, ${references} references`
    const size = type === 'bitmap:port' ? ' range 0-65535' : `${of} maxelem ${maxElements}`
    yield `create ${name} ${type}${size}${printExtensions(header)}`
    if (!isKnown(type)) continue
    const cursor = new IpsetEntryCursor(await ipset.entries(name), type)
    for (let index = 0; index < cursor.length; index++)
      yield `add ${name} ${printIpsetEntry(cursor.entry(index))}`
  }
}

function isKnown(type: string): type is IpsetType {
  return Object.hasOwn(ipsetShapes, type)
}

/** The whole table of IPVS, as `ipvsadm -Sn` prints it. */
export async function* listIpvs({ ipvs }: Pick<Kernel, 'ipvs'>): Lines {
  for (const family of families) {
    const { virtualServers, realServers } = await ipvs.dump(family)
    const servers = new VirtualServerCursor(virtualServers)
    const reals = new RealServerCursor(realServers)
    for (let index = 0; index < servers.length; index++) {
      const key = servers.key(index)
      yield printIpvsOp({ op: 'add-virtual-server', server: { key, settings: servers.settings(index) } }).text
      const first = servers.firstReal(index)
      for (let at = first; at < first + servers.realCount(index); at++) {
        const real = { key: reals.key(at), settings: reals.settings(at) }
        yield printIpvsOp({ op: 'add-real-server', server: key, real }).text
      }
    }
  }
}

/** Viaduct's routes, as commands of `ip -batch`. */
export async function* listRoutes({ routes, links }: Pick<Kernel, 'routes' | 'links'>): Lines {
  const names = new Map((await links.list()).map(({ index, name }) => [index, name]))
  for (const family of families) {
    const cursor = new RouteCursor(await routes.dumpLocalRoutes(family))
    for (let index = 0; index < cursor.length; index++) {
      if (cursor.protocol(index) !== viaductRouteProtocol) continue
      const op = { op: 'add-route', route: cursor.route(index) } as const
      yield printRouteOp(op, (link) => names.get(link) ?? `if${link}`).text
    }
  }
}
