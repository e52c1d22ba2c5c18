// The traffic table held against kube-proxy's own layout, written by iptables-restore: a table that fails here is wrong itself.
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setSysctls } from '../support/namespaces.js'
import type { Topology } from '../support/topology.js'
import { kubeProxyRules } from '../traffic/reference/rules.js'
import { runTable, type Subject } from '../traffic/table-runner.js'
import { trafficTable, type TrafficGroup } from '../traffic/table/index.js'
import { nodeObject } from '../traffic/table/slot.js'
import { families } from '../traffic/table/world.js'

/** Rules of what a group begins with; no agent, so no changes and no health checks. */
class ReferenceSubject implements Subject {
  #topology: Topology | undefined

  async start(topology: Topology, group: TrafficGroup): Promise<void> {
    this.#topology = topology
    const { settings, node, cases } = group
    const objects = [nodeObject, ...cases.flatMap((row) => row.objects)]
    const isLiberal = node?.sysctls?.includes('net.netfilter.nf_conntrack_tcp_be_liberal=1') === true
    await setSysctls(
      topology.node,
      `net.ipv4.conf.all.route_localnet=${settings.localhostNodePorts === false ? 0 : 1}`,
    )
    const folder = await mkdtemp(join(tmpdir(), 'viaduct-reference-'))
    try {
      for (const family of families) {
        const file = join(folder, family)
        await writeFile(file, kubeProxyRules({ family, settings, objects }, isLiberal))
        await topology.node.must(`${program(family)}-restore`, '--noflush', file)
      }
    } finally {
      await rm(folder, { recursive: true })
    }
  }

  /** Everything but what the group's own firewall did, whose undoing is the runner's. */
  async stop(): Promise<void> {
    const { node } = this.#topology ?? {}
    for (const family of families) {
      for (const table of ['nat', 'filter']) {
        await node?.must(program(family), '-t', table, '-F')
        await node?.must(program(family), '-t', table, '-X')
      }
    }
    this.#topology = undefined
  }
}

function program(family: 'IPv4' | 'IPv6'): string {
  return family === 'IPv4' ? 'iptables-legacy' : 'ip6tables-legacy'
}

/** Without what only an agent has: health checks, and order between two Services that want the same frontend. */
function withoutAgent(group: TrafficGroup): TrafficGroup {
  const cases = group.cases.filter(({ rules }) => !rules.includes('ADR 7'))
  return {
    ...group,
    cases: cases.map((row) => ({ ...row, checks: row.checks.filter(({ kind }) => kind !== 'http') })),
  }
}

runTable("the traffic table on kube-proxy's own rules", trafficTable(['TCP', 'UDP']).map(withoutAgent), {
  subject: new ReferenceSubject(),
  protocols: ['TCP', 'UDP'],
  followsChanges: false,
})
