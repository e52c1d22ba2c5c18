// The figures of a change of the proxy: connections, kernel objects of proxies, and lines of others.
import type { LoadCounts } from '../../test/support/load.js'
import type { Namespace } from '../../test/support/namespaces.js'

export interface LoadFigures {
  readonly tried: number
  readonly failed: number
  readonly retransmitted: number
  readonly slowestMs: number
  /** The first reasons. */
  readonly failures: readonly string[]
}

export function summary(counts: LoadCounts): LoadFigures {
  const all = Object.values(counts)
  const sum = (field: 'tried' | 'failed' | 'retransmitted'): number =>
    all.reduce((total, count) => total + count[field], 0)
  const failures = Object.entries(counts).flatMap(([name, count]) =>
    count.failures.map((text) => `${name}: ${text}`),
  )
  return {
    tried: sum('tried'),
    failed: sum('failed'),
    retransmitted: sum('retransmitted'),
    slowestMs: Math.max(...all.map(({ slowestMs }) => slowestMs)),
    failures: failures.slice(0, 10),
  }
}

/** How many chains of proxies each place has. */
export async function leftIn(node: Namespace): Promise<Readonly<Record<string, number>>> {
  const [legacy, nft, tables] = await Promise.all([
    node.must('iptables-legacy-save'),
    node.must('iptables-nft-save'),
    node.must('nft', 'list', 'tables'),
  ])
  return {
    'legacy chains': countChains(legacy),
    'nft chains': countChains(nft),
    'tables kube-proxy': tables.match(/ kube-proxy$/gmu)?.length ?? 0,
  }
}

/** Chains of kubelet's left out. */
function countChains(saved: string): number {
  return saved.match(/^:KUBE-(?!KUBELET|IPTABLES|FIREWALL)/gmu)?.length ?? 0
}

/** Lines that have come or gone. */
export function difference(before: readonly string[], after: readonly string[]): readonly string[] {
  const gone = before.filter((line) => !after.includes(line)).map((line) => `- ${line.trim()}`)
  const come = after.filter((line) => !before.includes(line)).map((line) => `+ ${line.trim()}`)
  const isMoved = gone.length + come.length === 0 && before.join('\n') !== after.join('\n')
  return [...gone, ...come, ...(isMoved ? ['another order'] : [])]
}
