// Records what the calls of a kernel change, as commands of the usual tools.
import type { ConntrackFrontend } from '../conntrack/conntrack.js'
import type { IpFamily } from '../../address.js'
import { KernelError, orRefusal } from '../../errors.js'
import type { Kernel } from '../open-kernel.js'
import type { BatchOutcome, Operations } from '../batch.js'
import { describePlace } from '../ports/real-ports.js'
import type { PortOp } from '../ports/ports.js'
import { describeRelayOp, type RelayOp } from '../relay/relay.js'
import type { XtListing } from '../xtables/listing.js'
import type { XtFlavour, XtTableName, Xtables } from '../xtables/xtables.js'
import { diffListings, type ListedTable } from './diff-listings.js'
import { type KernelOperation, type OperationTool, withoutProbes } from './operation.js'
import { printIpsetOp } from './print-ipset.js'
import { printIpvsOp } from './print-ipvs.js'
import { NftPrinter } from './print-nft.js'
import { printRouteOp } from './print-route.js'

/** A kernel whose changes are recorded. */
export interface Recorder {
  /** Passes every call on. */
  readonly kernel: Kernel
  /**
   * The changes of all calls so far that the kernel took. Tables of x_tables are compared as a whole: their content before the first
   * `apply` and now. Throws KernelError if a table cannot be read.
   */
  operations(): Promise<readonly KernelOperation[]>
  /** The settings that the kernel did not let this process write, as sysctl(8) takes them: `-w NAME=VALUE`. */
  refusedSettings(): readonly string[]
}

/** A table of x_tables, and its content before the first change. */
interface ChangedTable {
  readonly place: { readonly family: IpFamily; readonly table: XtTableName }
  readonly flavour: XtFlavour
  readonly before: Promise<XtListing>
  isWritten: boolean
}

const tools = {
  legacy: { ipv4: 'iptables-legacy', ipv6: 'ip6tables-legacy' },
  nft: { ipv4: 'iptables-nft', ipv6: 'ip6tables-nft' },
} as const satisfies Readonly<Record<XtFlavour, Readonly<Record<IpFamily, OperationTool>>>>

/** Records the changes of a kernel from now on. */
export function recordKernel(kernel: Kernel): Recorder {
  const recorded: KernelOperation[] = []
  const tables = new Map<string, ChangedTable>()
  const printer = new NftPrinter()
  const refusedSettings = new Set<string>()
  const note = (...operations: readonly KernelOperation[]): void => void recorded.push(...operations)
  const noteTable = (family: IpFamily, table: XtTableName, flavour: XtFlavour): ChangedTable => {
    const key = `${flavour} ${family} ${table}`
    const place = { family, table }
    const known = tables.get(key)
    if (known !== undefined) return known
    const changed = { place, flavour, before: kernel.listTable(place, flavour), isWritten: false }
    tables.set(key, changed)
    return changed
  }
  const recording: Kernel = intercept(kernel, {
    ...recordNetwork(kernel, note),
    ipvs: intercept(kernel.ipvs, {
      apply: async (ops) => noted(ops, await kernel.ipvs.apply(ops), (op) => note(printIpvsOp(op))),
      setTimeouts: async (timeouts) => {
        await kernel.ipvs.setTimeouts(timeouts)
        const text = `--set ${timeouts.tcpSeconds} ${timeouts.tcpFinSeconds} ${timeouts.udpSeconds}`
        note({ tool: 'ipvsadm', effect: 'change', object: 'time-outs', text })
      },
    }),
    ipset: intercept(kernel.ipset, {
      apply: async (ops) => noted(ops, await kernel.ipset.apply(ops), (op) => note(printIpsetOp(op))),
    }),
    nftables: intercept(kernel.nftables, {
      apply: async (transaction, options) => {
        const outcome = await kernel.nftables.apply(transaction, options)
        if (options?.isDryRun !== true && outcome.state === 'applied')
          for (const operation of printer.print(transaction)) note(operation)
        return outcome
      },
    }),
    nftChains: intercept(kernel.nftChains, {
      discardTable: async (family, table) => {
        const isDeleted = await kernel.nftChains.discardTable(family, table)
        const transaction = [{ op: 'delete-table', table: { family, table } }] as const
        if (isDeleted) note(...printer.print(transaction))
        return isDeleted
      },
    }),
    sysctl: intercept(kernel.sysctl, {
      write: async (path, value) => {
        const name = path.includes('.') ? path : path.replaceAll('/', '.')
        const text = `-w ${name}=${value}`
        const refusal = await orRefusal(async () => await kernel.sysctl.write(path, value))
        if (refusal instanceof KernelError) {
          refusedSettings.add(text)
          throw refusal
        }
        note({ tool: 'sysctl', effect: 'change', object: path, text })
      },
    }),
    xtables: (family, table, flavour = 'legacy') =>
      recordTable(kernel.xtables(family, table, flavour), () => noteTable(family, table, flavour)),
  })
  const operations = async (): Promise<readonly KernelOperation[]> => {
    const found: KernelOperation[] = []
    for (const { place, flavour, before, isWritten } of tables.values()) {
      if (!isWritten) continue
      const listed: ListedTable = { tool: tools[flavour][place.family], table: place.table }
      found.push(...diffListings(await before, await kernel.listTable(place, flavour), listed))
    }
    return [...found, ...withoutProbes(recorded)]
  }
  return { kernel: recording, operations, refusedSettings: () => [...refusedSettings] }
}

type Note = (...operations: readonly KernelOperation[]) => void

/** Links, routes, and the parts whose state ends with the agent. */
function recordNetwork(
  kernel: Kernel,
  note: Note,
): Pick<Kernel, 'links' | 'routes' | 'conntrack' | 'ports' | 'relay'> {
  const nameOf = async (): Promise<(index: number) => string> => {
    const names = new Map((await kernel.links.list()).map(({ index, name }) => [index, name]))
    return (index) => names.get(index) ?? `if${index}`
  }
  const noteLink = (effect: KernelOperation['effect'], name: string, text: string): void =>
    note({ tool: 'ip', effect, object: `link ${name}`, text })
  return {
    links: intercept(kernel.links, {
      addDummy: async (name) => {
        const link = await kernel.links.addDummy(name)
        noteLink('add', name, `link add ${name} type dummy`)
        return link
      },
      setUp: async (index) => {
        const name = (await nameOf())(index)
        await kernel.links.setUp(index)
        noteLink('change', name, `link set ${name} up`)
      },
      remove: async (index) => {
        const name = (await nameOf())(index)
        await kernel.links.remove(index)
        noteLink('remove', name, `link del ${name}`)
      },
    }),
    routes: intercept(kernel.routes, {
      apply: async (ops) => {
        const name = await nameOf()
        return noted(ops, await kernel.routes.apply(ops), (op) => note(printRouteOp(op, name)))
      },
    }),
    conntrack: intercept(kernel.conntrack, {
      deleteStale: async (family, frontends, addresses) => {
        const outcome = await kernel.conntrack.deleteStale(family, frontends, addresses)
        for (const frontend of frontends) if (!isProbe(frontend)) note(printFrontend(family, frontend))
        return outcome
      },
    }),
    ports: intercept(kernel.ports, {
      apply: async (ops) => {
        const outcome = await kernel.ports.apply(ops)
        noted(ops, outcome, (op) => note(printPortOp(op)))
        return outcome
      },
    }),
    relay: intercept(kernel.relay, {
      apply: async (ops) => noted(ops, await kernel.relay.apply(ops), (op) => note(printRelayOp(op))),
    }),
  }
}

/** The object with some members replaced. Methods run on `target` itself. */
function intercept<T extends object>(target: T, members: Partial<T>): T {
  return new Proxy(target, {
    get: (_, name) => {
      if (Object.hasOwn(members, name)) return Reflect.get(members, name)
      const value: unknown = Reflect.get(target, name)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}

/** The table, whose content is read before its first change. */
function recordTable(table: Xtables, noteTable: () => ChangedTable): Xtables {
  return intercept(table, {
    apply: async (ops, options) => {
      const changed = noteTable()
      await changed.before
      const outcome = await table.apply(ops, options)
      changed.isWritten ||= outcome.isWritten
      return outcome
    },
  })
}

/** Calls `note` for each operation that the kernel took, and returns the outcome. */
function noted<Op>(ops: Operations<Op>, outcome: BatchOutcome, note: (op: Op) => void): BatchOutcome {
  const failed = new Set(outcome.failures.map(({ index }) => index))
  for (let index = 0; index < ops.length; index++) {
    const op = ops.at(index)
    if (op !== undefined && !failed.has(index)) note(op)
  }
  return outcome
}

/** An address of TEST-NET-2 (RFC 5737), which no flow has: the request only makes the kernel load modules. */
function isProbe({ address }: ConntrackFrontend): boolean {
  return address?.startsWith('198.51.100.') === true
}

/** Flows of the frontend to other places than its backends. */
function printFrontend(family: IpFamily, { protocol, address, port }: ConntrackFrontend): KernelOperation {
  const destination = address === undefined ? '' : ` --orig-dst ${address}`
  const text = `-D -f ${family} -p ${protocol}${destination} --orig-port-dst ${port}`
  return { tool: 'conntrack', effect: 'remove', object: `${family} ${protocol} ${address} ${port}`, text }
}

function printPortOp({ op, place }: PortOp): KernelOperation {
  const name = describePlace(place)
  const effect = op === 'hold' ? 'add' : 'remove'
  return { tool: 'ports', effect, object: `${place.family} ${name}`, text: `${op} ${place.family} ${name}` }
}

function printRelayOp(op: RelayOp): KernelOperation {
  const object = describeRelayOp(op)
  const effect = op.op.startsWith('remove') ? 'remove' : 'add'
  return { tool: 'relay', effect, object, text: `${op.op.replace('-', ' ')} ${object}` }
}
