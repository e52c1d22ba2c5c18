// Takeovers of a node from one proxy to another, among chains of other programs and with steady traffic. Prints one JSON line:
//   node run.js FROM TO
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { LoadCounts } from '../../test/support/load.js'
import type { Namespace } from '../../test/support/namespaces.js'
import type { Program } from '../../test/support/processes.js'
import { treeRoot } from '../../test/support/tree.js'
import { foreignChains } from '../../test/traffic/foreign-chains.js'
import { endpointCount, hostPortPaths, staleServers, SwitchLab } from '../../test/traffic/switch-lab.js'
import { isInSharedTables, proxies, type ProxyName } from './proxies.js'

const agentFile = join(treeRoot, 'dist/agent.js')
/** After the first sync: longer than what a proxy still removes then. */
const restMs = 3000
/** Endpoints that the Services still have when the second proxy starts. */
const remaining = endpointCount - 1

interface Figures {
  readonly tried: number
  readonly failed: number
  readonly retransmitted: number
  readonly slowestMs: number
  readonly failures: readonly string[]
  /** Servers that were gone and answered new connections after the first sync. */
  readonly stale: readonly string[]
  /** Lines of others that have come or gone. */
  readonly foreign: readonly string[]
  /** Objects of proxies that are there in the end. */
  readonly left: Readonly<Record<string, number>>
}

function summary(
  counts: LoadCounts,
): Pick<Figures, 'tried' | 'failed' | 'retransmitted' | 'slowestMs' | 'failures'> {
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
async function leftIn(node: Namespace): Promise<Readonly<Record<string, number>>> {
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

function difference(before: readonly string[], after: readonly string[]): readonly string[] {
  const gone = before.filter((line) => !after.includes(line)).map((line) => `- ${line.trim()}`)
  const come = after.filter((line) => !before.includes(line)).map((line) => `+ ${line.trim()}`)
  const isMoved = gone.length + come.length === 0 && before.join('\n') !== after.join('\n')
  return [...gone, ...come, ...(isMoved ? ['another order'] : [])]
}

/** kube-proxy gets the node back from Viaduct by the command for it. */
function isWayBack(from: ProxyName, to: ProxyName): boolean {
  return to.startsWith('kube-proxy') && !from.startsWith('kube-proxy')
}

async function startHandOver(lab: SwitchLab): Promise<Program> {
  const handOver = lab.node.start(process.execPath, agentFile, 'hand-over', '--timeout=60')
  await handOver.line((line) => line.includes('start kube-proxy'))
  return handOver
}

async function endOf(handOver: Program): Promise<void> {
  const { code, stderr } = await handOver.ended
  if (code !== 0) throw new Error(`hand-over ended with ${code}: ${stderr}`)
}

async function takeOver(from: ProxyName, to: ProxyName): Promise<Figures> {
  const lab = await SwitchLab.create()
  try {
    const first = await proxies[from](lab, endpointCount)
    await first.inForce()
    const isShared = isInSharedTables(from) && isInSharedTables(to)
    await lab.writeForeignChains({
      forwardPolicy: isShared ? 'DROP' : 'ACCEPT',
      markChain: isInSharedTables(from) ? 'KUBE-MARK-MASQ' : 'CNI-HOSTPORT-SETMARK',
    })
    await lab.startLoad(...(isShared ? hostPortPaths : []))
    await sleep(restMs)
    const before = await foreignChains(lab.node)
    const handOver = isWayBack(from, to) ? await startHandOver(lab) : undefined
    await first.stop()
    await lab.publish(remaining)
    let second: Awaited<ReturnType<(typeof proxies)[ProxyName]>> | undefined
    const counts = await lab.during(async () => {
      second = await proxies[to](lab, remaining)
      await second.inForce()
      if (handOver !== undefined) await endOf(handOver)
    })
    const stale = staleServers(await lab.during(async () => {}), remaining)
    const later = await lab.during(async () => await sleep(restMs))
    const foreign = difference(before, await foreignChains(lab.node))
    const left = await leftIn(lab.node)
    await second?.stop()
    const [during, after] = [summary(counts), summary(later)]
    return {
      tried: during.tried + after.tried,
      failed: during.failed + after.failed,
      retransmitted: during.retransmitted + after.retransmitted,
      slowestMs: Math.max(during.slowestMs, after.slowestMs),
      failures: [...during.failures, ...after.failures],
      stale,
      foreign,
      left,
    }
  } finally {
    await lab.close()
  }
}

function proxyOf(name: string | undefined): ProxyName {
  const names = Object.keys(proxies).filter((candidate): candidate is ProxyName => candidate in proxies)
  const found = names.find((candidate) => candidate === name)
  if (found === undefined) throw new Error(`no proxy ${name ?? ''}, only ${names.join(', ')}`)
  return found
}

const [from, to] = process.argv.slice(2)
process.stdout.write(`${JSON.stringify(await takeOver(proxyOf(from), proxyOf(to)))}\n`)
