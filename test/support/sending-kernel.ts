// A kernel that gets the transactions, as in a start, and gives them to a test too, as a dry run does.
import type { ConntrackFrontend, Kernel, Xtables, XtFlavour } from '../../src/kernel/index.js'
import type { TakeTransaction } from '../../src/kernel/testing.js'
import { KernelError, orRefusal } from '../../src/errors.js'
import { withMembers } from '../../src/kernel/dry-run/take-batch.js'

interface Batch<Op> {
  readonly length: number
  at(index: number): Op | undefined
}

interface Outcome {
  readonly failures: readonly { readonly index: number }[]
}

/** The operations that the kernel took. */
function taken<Op>(ops: Batch<Op>, { failures }: Outcome): readonly Op[] {
  const failed = new Set(failures.map(({ index }) => index))
  return Array.from({ length: ops.length }, (_, index) => index).flatMap((index) =>
    failed.has(index) ? [] : (ops.at(index) ?? []),
  )
}

/** An address of TEST-NET-2 (RFC 5737), which no flow has. */
const isProbe = ({ address }: ConntrackFrontend): boolean => address?.startsWith('198.51.100.') === true

/** `take` gets each transaction after the kernel. */
export function sendingKernel(kernel: Kernel, take: TakeTransaction): Kernel {
  const nameOf = async (index: number): Promise<string> =>
    (await kernel.links.list()).find((link) => link.index === index)?.name ?? `if${index}`
  return withMembers(kernel, {
    xtables: (family, table, flavour = 'legacy') =>
      sendingTable(kernel, kernel.xtables(family, table, flavour), flavour, take),
    nftables: withMembers(kernel.nftables, {
      apply: async (ops, options) => {
        const outcome = await kernel.nftables.apply(ops, options)
        if (options?.isDryRun !== true && outcome.state === 'applied') take({ part: 'nftables', ops })
        return outcome
      },
    }),
    nftChains: withMembers(kernel.nftChains, {
      discardTable: async (family, table) => {
        const isDeleted = await kernel.nftChains.discardTable(family, table)
        if (isDeleted) take({ part: 'nftables', ops: [{ op: 'delete-table', table: { family, table } }] })
        return isDeleted
      },
    }),
    ipset: withMembers(kernel.ipset, {
      apply: async (ops) => {
        const outcome = await kernel.ipset.apply(ops)
        take({ part: 'ipset', ops: taken(ops, outcome) })
        return outcome
      },
    }),
    ipvs: withMembers(kernel.ipvs, {
      apply: async (ops) => {
        const outcome = await kernel.ipvs.apply(ops)
        take({ part: 'ipvs', ops: taken(ops, outcome) })
        return outcome
      },
      setTimeouts: async (timeouts) => {
        await kernel.ipvs.setTimeouts(timeouts)
        take({ part: 'ipvs-timeouts', timeouts })
      },
    }),
    routes: withMembers(kernel.routes, {
      apply: async (ops) => {
        const links = await kernel.links.list()
        const outcome = await kernel.routes.apply(ops)
        take({ part: 'routes', ops: taken(ops, outcome), links })
        return outcome
      },
    }),
    links: withMembers(kernel.links, {
      addDummy: async (name) => {
        const link = await kernel.links.addDummy(name)
        take({ part: 'links', op: 'add-dummy', name })
        return link
      },
      setUp: async (index) => {
        await kernel.links.setUp(index)
        take({ part: 'links', op: 'set-up', name: await nameOf(index) })
      },
      remove: async (index) => {
        const name = await nameOf(index)
        await kernel.links.remove(index)
        take({ part: 'links', op: 'remove', name })
      },
    }),
    sysctl: withMembers(kernel.sysctl, {
      write: async (path, value) => {
        const refusal = await orRefusal(async () => await kernel.sysctl.write(path, value))
        take({ part: 'sysctl', path, value, isRefused: refusal instanceof KernelError })
        if (refusal instanceof KernelError) throw refusal
      },
    }),
    ...sendingHost(kernel, take),
  })
}

function sendingHost(kernel: Kernel, take: TakeTransaction): Pick<Kernel, 'conntrack' | 'ports' | 'relay'> {
  return {
    conntrack: withMembers(kernel.conntrack, {
      deleteStale: async (family, frontends, addresses) => {
        const outcome = await kernel.conntrack.deleteStale(family, frontends, addresses)
        take({ part: 'conntrack', family, frontends: frontends.filter((each) => !isProbe(each)) })
        return outcome
      },
    }),
    ports: withMembers(kernel.ports, {
      apply: async (ops) => {
        const outcome = await kernel.ports.apply(ops)
        take({ part: 'ports', ops: taken(ops, outcome) })
        return outcome
      },
    }),
    relay: withMembers(kernel.relay, {
      apply: async (ops) => {
        const outcome = await kernel.relay.apply(ops)
        take({ part: 'relay', ops: taken(ops, outcome) })
        return outcome
      },
    }),
  }
}

function sendingTable(kernel: Kernel, xtables: Xtables, flavour: XtFlavour, take: TakeTransaction): Xtables {
  const { family, table } = xtables
  const place = { family, table }
  return withMembers(xtables, {
    apply: async (ops, options = {}) => {
      const before = await kernel.listTable(place, flavour)
      const outcome = await xtables.apply(ops, options)
      const after = await kernel.listTable(place, flavour)
      const { prune = [] } = options
      if (outcome.isWritten) take({ part: 'xtables', place, flavour, ops, prune, before, after })
      return outcome
    },
  })
}
