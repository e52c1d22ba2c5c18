// Proxies that a node can have: the shipped agent and a kube-proxy, in every mode and flavour of x_tables.
import { fileURLToPath } from 'node:url'
import type { Program } from '../../test/support/processes.js'
import { clusterCidrs, type SwitchLab } from '../../test/traffic/switch-lab.js'
import { families } from '../../test/traffic/table/world.js'
import { KubeProxyRun, type KubeProxyOptions } from '../api/peer.js'

const apiProgram = fileURLToPath(new URL('../../test/support/fake-api-program.js', import.meta.url))
const apiPort = 6443
const clusterCidr = families.map((family) => clusterCidrs[family]).join(',')

/** A proxy at work on the node of a lab. */
export interface Proxy {
  /** Resolves when its rules are in the kernel. */
  inForce(): Promise<void>
  /** Ends it. Its rules stay. */
  stop(): Promise<void>
}

export type StartProxy = (lab: SwitchLab, endpoints: number) => Promise<Proxy>

async function startAgent(
  lab: SwitchLab,
  mode: 'iptables' | 'nftables',
  ...flags: readonly string[]
): Promise<Proxy> {
  const agent = lab.startAgent(mode, ...flags)
  return {
    inForce: () => agent.synced(),
    stop: async () => void (await agent.terminate()),
  }
}

/** An API server on the node, with the objects of the lab. */
async function startApi(lab: SwitchLab, endpoints: number): Promise<Program> {
  const api = lab.node.start(process.execPath, apiProgram, String(apiPort))
  const commands = [...lab.objects(endpoints).map((object) => ['put', object['kind'], object]), ['listen']]
  for (const command of commands) api.write(`${JSON.stringify(command)}\n`)
  await api.line((line) => line.startsWith('["listen"'))
  return api
}

async function startKubeProxy(
  lab: SwitchLab,
  endpoints: number,
  options: Omit<KubeProxyOptions, 'binary' | 'flags'>,
): Promise<Proxy> {
  const { KUBE_PROXY: binary = '' } = process.env
  if (binary === '') throw new Error('KUBE_PROXY names no program: set it to the path of a kube-proxy')
  const api = await startApi(lab, endpoints)
  // The API server of the tests reads Events in JSON only.
  const flags = [`--cluster-cidr=${clusterCidr}`, '--kube-api-content-type=application/json', '-v=2']
  const run = new KubeProxyRun(
    lab.node,
    { url: `http://127.0.0.1:${apiPort}` },
    { ...options, binary, flags },
  )
  return {
    inForce: () => run.inForce(families),
    stop: async () => {
      await run.stop()
      await api.kill()
    },
  }
}

export const proxies = {
  'kube-proxy iptables-nft': (lab, endpoints) =>
    startKubeProxy(lab, endpoints, { mode: 'iptables', flavour: 'nft' }),
  'kube-proxy iptables-legacy': (lab, endpoints) => startKubeProxy(lab, endpoints, { mode: 'iptables' }),
  'kube-proxy nftables': (lab, endpoints) =>
    startKubeProxy(lab, endpoints, { mode: 'nftables', flavour: 'nft' }),
  'iptables-nft': (lab) => startAgent(lab, 'iptables', '--iptables-flavour', 'nft'),
  'iptables-legacy': (lab) => startAgent(lab, 'iptables', '--iptables-flavour', 'legacy'),
  nftables: (lab) => startAgent(lab, 'nftables'),
} as const satisfies Readonly<Record<string, StartProxy>>

export type ProxyName = keyof typeof proxies

/** In iptables mode on nf_tables: others find the chain KUBE-MARK-MASQ in `ip nat`, and its FORWARD accepts what is translated. */
export function isInSharedTables(name: ProxyName): boolean {
  return name.endsWith('iptables-nft')
}
