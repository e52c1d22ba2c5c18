// The examples of docs/nftables-example.md and docs/iptables-nft-example.md: what two modes make of examples/ipvs.
import { mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ProxyMode } from '../../src/config/index.js'
import { Namespace } from '../support/namespaces.js'
import { blocksOf, orderedListing } from '../support/nft-listing.js'
import { NftMonitor } from '../support/nft-monitor.js'
import { treeRoot } from '../support/tree.js'
import { AgentProcess } from './agent-process.js'

/** An endpoint of Service web. */
const endpoint = '  - { addresses: [10.244.2.11], nodeName: node-b }\n'

export interface NftablesExample {
  /** `nft list table ip kube-proxy`, with elements in order. */
  readonly table: string
  /** Lines of `nft monitor` while an endpoint of Service web goes, and while it comes back. */
  readonly removal: readonly string[]
  readonly addition: readonly string[]
}

/** Runs nftables mode in a namespace of its own. */
export async function runNftablesExample(): Promise<NftablesExample> {
  return await runExample('nftables', [], async ({ node, agent, change }) => {
    const table = orderedListing(await node.must('nft', 'list', 'table', 'ip', 'kube-proxy'))
    const monitor = await NftMonitor.open(node)
    const taken = async (content: (text: string) => string): Promise<readonly string[]> => {
      const from = agent.lineCount
      await change(content)
      await agent.line(/"IPv4".*"routes":1,.*"Sync done"/u, from)
      return await monitor.take()
    }
    const removal = await taken((text) => text.replace(endpoint, ''))
    const addition = await taken((text) => text)
    return { table, removal, addition }
  })
}

export interface IptablesNftExample {
  /** `iptables-nft-save`, without comments and counters. */
  readonly saved: string
  /** The base chains of `nft list table ip kube-proxy`. */
  readonly baseChains: readonly string[]
}

/** Runs iptables mode of the flavour nft in a namespace of its own. `inspect` gets the node while the rules are there. */
export async function runIptablesNftExample(
  inspect: (node: Namespace) => Promise<void> = async () => {},
): Promise<IptablesNftExample> {
  return await runExample('iptables', ['--iptables-flavour=nft'], async ({ node }) => {
    await inspect(node)
    const saved = await node.must('iptables-nft-save')
    const table = await node.must('nft', 'list', 'table', 'ip', 'kube-proxy')
    const plain = saved.replaceAll(/^#.*(?:\n|$)/gmu, '').replaceAll(/ \[\d+:\d+\]/gu, ' [0:0]')
    return { saved: plain.trim(), baseChains: blocksOf(table).filter((block) => block.includes(' hook ')) }
  })
}

interface RunningExample {
  readonly node: Namespace
  readonly agent: AgentProcess
  /** Publishes the changed text of the manifests. */
  readonly change: (content: (text: string) => string) => Promise<void>
}

async function runExample<T>(
  mode: ProxyMode,
  flags: readonly string[],
  use: (example: RunningExample) => Promise<T>,
): Promise<T> {
  const node = await Namespace.create('node-a')
  const folder = await mkdtemp(join(tmpdir(), 'viaduct-example-'))
  try {
    await node.ip('link add eth0 type veth peer name eth1', 'address add 192.168.50.1/24 dev eth0')
    await node.ip('link set eth0 up', 'link set eth1 up')
    const text = await readFile(join(treeRoot, 'examples/ipvs/services.yaml'), 'utf8')
    const manifests = join(folder, 'manifests')
    const change = async (content: (text: string) => string): Promise<void> => {
      await writeFile(join(folder, 'edited'), content(text))
      await rename(join(folder, 'edited'), join(manifests, 'services.yaml'))
    }
    await mkdir(manifests)
    await change((content) => content)
    const all = ['--cluster-cidr=10.244.0.0/16', ...flags]
    const agent = AgentProcess.start({ node, manifests, mode, flags: all })
    await agent.synced()
    const result = await use({ node, agent, change })
    await agent.terminate()
    return result
  } finally {
    await node.close()
    await rm(folder, { recursive: true })
  }
}
