// Two agents with other settings or other objects fight for the same table, until one of them names the other and rests. Before, no
// agent named one that differs only in elements of sets and maps.
import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { AgentProcess } from '../traffic/agent-process.js'
import { clusterCidrs, endpointCount, SwitchLab } from '../traffic/switch-lab.js'

/** The agents share no port. */
const servers = ['--healthz-bind-address=127.0.0.1:10266', '--metrics-bind-address=127.0.0.1:10267']
const named =
  /"Another agent is running: node \(pid \d+\) writes other (?:rules|elements) into IPv[46] kube-proxy /u

const otherAddresses = ['--nodeport-addresses=10.1.0.0/16,fd00:10:1::/64']

const modes: readonly {
  readonly title: string
  readonly mode: 'nftables' | 'iptables'
  readonly flags: readonly string[]
  readonly others: readonly {
    readonly name: string
    readonly flags: readonly string[]
    readonly endpoints: number
  }[]
}[] = [
  {
    title: 'nftables mode',
    mode: 'nftables',
    flags: [],
    others: [
      { name: 'other endpoints', flags: [], endpoints: endpointCount - 1 },
      { name: 'other addresses of node ports', flags: otherAddresses, endpoints: endpointCount },
    ],
  },
  {
    title: 'iptables mode of the flavour nft',
    mode: 'iptables',
    flags: ['--iptables-flavour=nft'],
    others: [
      { name: 'other endpoints', flags: [], endpoints: endpointCount - 1 },
      { name: 'another bit of the mark', flags: ['--iptables-masquerade-bit=15'], endpoints: endpointCount },
    ],
  },
]

for (const { title, mode, flags: own, others } of modes)
  describe(`two agents that differ: ${title}`, { timeout: 120_000 }, () => {
    let lab: SwitchLab
    let folder: string
    beforeEach(async () => {
      lab = await SwitchLab.create()
      folder = await mkdtemp(join(tmpdir(), 'viaduct-other-'))
    })
    afterEach(async () => {
      await lab.close()
      await rm(folder, { recursive: true })
    })

    for (const { name, flags, endpoints } of others)
      it(`one of them names the other: ${name}`, { timeout: 40_000 }, async () => {
        const list = { apiVersion: 'v1', kind: 'List', items: lab.objects(endpoints) }
        await writeFile(join(folder, 'all.json'), JSON.stringify(list))
        const first = lab.startAgent(mode, ...own)
        await first.synced()
        const cidrs = ['--cluster-cidr', Object.values(clusterCidrs).join(',')]
        const socket = `--control-socket=${join(folder, 'socket')}`
        const second = AgentProcess.start({
          node: lab.node,
          manifests: folder,
          mode,
          flags: [...cidrs, ...own, ...servers, ...flags, socket],
        })
        assert.match(await Promise.race([first.line(named, 0), second.line(named, 0)]), named)
      })
  })
