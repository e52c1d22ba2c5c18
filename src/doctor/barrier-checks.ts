// Chains of other programs that drop connections to Services.
import { acceptingCommand, barrierPlace, describeBarrier } from '../host/index.js'
import type { XtHookPlace } from '../kernel/index.js'
import { type Check, type Examined, ok, partProblemsOr, type Verdict } from './check.js'

export const barrierChecks: readonly Check[] = [
  {
    name: 'forward',
    looksAt: 'chains of nf_tables and of the legacy tables at hook forward that drop what no rule accepts',
    run: async (node) =>
      partProblemsOr(
        node,
        ['nf_tables'],
        [...(await nftBarriers(node)), ...(await legacyBarriers(node))],
        'no chain at hook forward drops connections to Services',
      ),
  },
  {
    name: 'input',
    looksAt:
      'in ipvs and userspace mode, chains of nf_tables and of the legacy tables at hook input that drop what no rule accepts',
    run: async (node) => {
      const { chosen = '' } = node.modes
      if (!chosen.startsWith('ipvs') && chosen !== 'userspace')
        return ok('in this mode connections to Services do not come in at hook input')
      return partProblemsOr(
        node,
        ['nf_tables'],
        [...(await nftInput(node)), ...(await legacyInput(node))],
        'no chain at hook input drops connections to Services',
      )
    },
  },
]

const names = { ipv4: 'ip', ipv6: 'ip6', inet: 'inet' } as const

async function nftInput({ kernel }: Examined): Promise<readonly Verdict[]> {
  const barriers = await kernel.barriersAt('input')
  return barriers.map((barrier) =>
    closedInput(`chain ${barrierPlace(barrier)} of nf_tables ${describeBarrier(barrier)}`),
  )
}

async function legacyInput({ kernel }: Examined): Promise<readonly Verdict[]> {
  const found: Verdict[] = []
  for (const family of ['ipv4', 'ipv6'] as const) {
    const barrier = await legacyBarrier(kernel, { family, table: 'filter', hook: 'INPUT' })
    if (barrier !== undefined)
      found.push(closedInput(`INPUT of the legacy table ${names[family]} filter ${barrier}`))
  }
  return found
}

function closedInput(seen: string): Verdict {
  return {
    status: 'warning',
    seen,
    cause:
      'In this mode connections to Services come in at hook input: those of pods and of other hosts fail unless an earlier rule accepts them.',
    remedy:
      'Accept connections to the networks of cluster IPs and to the node ports, in the configuration of the program that made the chain.',
  }
}

/** The effect of a barrier in a legacy table; undefined: there is none. */
async function legacyBarrier(kernel: Examined['kernel'], place: XtHookPlace): Promise<string | undefined> {
  if (!(await kernel.activeTables(place.family, 'legacy')).includes(place.table)) return undefined
  const barrier = await kernel.findBarrier(place, 'legacy')
  return barrier && describeBarrier(barrier)
}

/** The agent accepts connections to Services in FORWARD of the flavour that it uses. */
async function nftBarriers({
  kernel,
  modes: { chosen = '', flavour },
}: Examined): Promise<readonly Verdict[]> {
  const accepts = flavour === 'nft' && !chosen.startsWith('nftables')
  const barriers = (await kernel.barriersAt('forward')).filter(
    ({ family, table, chain }) =>
      !(accepts && family !== 'inet' && table === 'filter' && chain === 'FORWARD'),
  )
  return barriers.map((barrier) => ({
    status: 'warning',
    seen: `chain ${barrierPlace(barrier)} of nf_tables ${describeBarrier(barrier)}`,
    cause:
      'Every chain at the hook must accept a packet: forwarded connections to Services fail unless an earlier rule accepts them.',
    remedy: `Accept the traffic of Services there: ${acceptingCommand(barrier)}.`,
  }))
}

async function legacyBarriers({
  kernel,
  modes: { chosen = '', flavour },
}: Examined): Promise<readonly Verdict[]> {
  if (flavour === 'legacy' && !chosen.startsWith('nftables')) return []
  const found: Verdict[] = []
  for (const family of ['ipv4', 'ipv6'] as const) {
    const barrier = await legacyBarrier(kernel, { family, table: 'filter', hook: 'FORWARD' })
    if (barrier === undefined) continue
    const tool = family === 'ipv4' ? 'iptables-legacy' : 'ip6tables-legacy'
    found.push({
      status: 'warning',
      seen: `FORWARD of the legacy table ${names[family]} filter ${barrier}`,
      cause:
        'A packet must pass both flavours: forwarded connections to Services fail unless an earlier rule accepts them.',
      remedy: `Accept the traffic of Services there: ${tool} -I FORWARD -m conntrack --ctstate DNAT -j ACCEPT.`,
    })
  }
  return found
}
