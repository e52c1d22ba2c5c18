// The example of docs/nftables-example.md: the table that nftables mode makes of examples/ipvs.
import { mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Namespace } from '../support/namespaces.js'
import { orderedListing } from '../support/nft-listing.js'
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

/** Runs the agent in a namespace of its own. */
export async function runNftablesExample(): Promise<NftablesExample> {
  const node = await Namespace.create('node-a')
  const folder = await mkdtemp(join(tmpdir(), 'viaduct-example-'))
  try {
    await node.ip('link add eth0 type veth peer name eth1', 'address add 192.168.50.1/24 dev eth0')
    await node.ip('link set eth0 up', 'link set eth1 up')
    const text = await readFile(join(treeRoot, 'examples/ipvs/services.yaml'), 'utf8')
    const manifests = join(folder, 'manifests')
    const write = async (content: string): Promise<void> => {
      await writeFile(join(folder, 'edited'), content)
      await rename(join(folder, 'edited'), join(manifests, 'services.yaml'))
    }
    await mkdir(manifests)
    await write(text)
    const flags = ['--cluster-cidr=10.244.0.0/16']
    const agent = AgentProcess.start({ node, manifests, mode: 'nftables', flags })
    await agent.synced()
    const table = orderedListing(await node.must('nft', 'list', 'table', 'ip', 'kube-proxy'))
    const monitor = await NftMonitor.open(node)
    const change = async (content: string): Promise<readonly string[]> => {
      const from = agent.lineCount
      await write(content)
      await agent.line(/"IPv4".*"routes":1,.*"Sync done"/u, from)
      return await monitor.take()
    }
    const removal = await change(text.replace(endpoint, ''))
    const addition = await change(text)
    await agent.terminate()
    return { table, removal, addition }
  } finally {
    await node.close()
    await rm(folder, { recursive: true })
  }
}
