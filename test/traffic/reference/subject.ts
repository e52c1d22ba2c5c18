// kube-proxy's own rules as a subject of the traffic table: iptables-restore writes them once; they follow no changes.
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { XtFlavour } from '../../../src/kernel/index.js'
import { type Namespace, setSysctls } from '../../support/namespaces.js'
import type { Topology } from '../../support/topology.js'
import type { Subject } from '../subject.js'
import type { TrafficGroup } from '../table/case.js'
import { nodeObject } from '../table/slot.js'
import { families } from '../table/world.js'
import { kubeProxyRules, servesLoopback } from './rules.js'

/** Rules of what a group begins with, left alone by their stop as by the end of kube-proxy. */
export class KubeProxyRules implements Subject {
  readonly #flavour: XtFlavour

  constructor(flavour: XtFlavour = 'legacy') {
    this.#flavour = flavour
  }

  async start({ node }: Topology, group: TrafficGroup): Promise<void> {
    const { settings, cases } = group
    const objects = [nodeObject, ...cases.flatMap((row) => row.objects)]
    const isLiberal = group.node?.sysctls?.includes('net.netfilter.nf_conntrack_tcp_be_liberal=1') === true
    if (servesLoopback({ family: 'IPv4', settings, objects }))
      await setSysctls(node, 'net.ipv4.conf.all.route_localnet=1')
    const folder = await mkdtemp(join(tmpdir(), 'viaduct-reference-'))
    try {
      for (const family of families) {
        const file = join(folder, family)
        await writeFile(file, kubeProxyRules({ family, settings, objects }, isLiberal))
        const program = `${family === 'IPv4' ? 'iptables' : 'ip6tables'}-${this.#flavour}`
        await clear(node, program)
        await node.must(`${program}-restore`, '--noflush', file)
      }
    } finally {
      await rm(folder, { recursive: true })
    }
  }

  stop(): Promise<void> {
    return Promise.resolve()
  }
}

/** Removes every chain of kube-proxy's, regardless of its maker, and keeps other programs' rules. */
async function clear(node: Namespace, program: string): Promise<void> {
  await node.must('sh', '-c', `${program}-save | grep -v KUBE- | ${program}-restore`)
}
