// Takeovers of a node from one proxy to another, among chains of other programs and with steady traffic. Prints one JSON line:
//   node run.js FROM TO
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Program } from '../../test/support/processes.js'
import { treeRoot } from '../../test/support/tree.js'
import { foreignChains } from '../../test/traffic/foreign-chains.js'
import { endpointCount, hostPortPaths, staleServers, SwitchLab } from '../../test/traffic/switch-lab.js'
import { difference, leftIn, type LoadFigures, summary } from './figures.js'
import { isInSharedTables, proxies, type ProxyName } from './proxies.js'

const agentFile = join(treeRoot, 'dist/agent.js')
/** After the first sync: longer than what a proxy still removes then. */
const restMs = 3000
/** Endpoints that the Services still have when the second proxy starts. */
const remaining = endpointCount - 1

interface Figures extends LoadFigures {
  /** Servers that were gone and answered new connections after the first sync. */
  readonly stale: readonly string[]
  /** Lines of others that have come or gone. */
  readonly foreign: readonly string[]
  /** Objects of proxies that are there in the end. */
  readonly left: Readonly<Record<string, number>>
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
