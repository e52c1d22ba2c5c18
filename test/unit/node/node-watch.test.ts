// Facts about the Node that the first sync waits for, and changes of the Node that end the agent (F-080, F-084 to F-086).
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Registry } from 'prom-client'
import { type IpAddress, type IpFamily, parseIpAddress } from '../../../src/address.js'
import { resolveConfig, type ConfigInput } from '../../../src/config/index.js'
import { Intake, openProblems } from '../../../src/engine/index.js'
import type { FamilyIntake } from '../../../src/engine/testing.js'
import { ConfigError, KernelError } from '../../../src/errors.js'
import { openMetrics } from '../../../src/metrics/index.js'
import { noNodeChange, NodeTracker, NodeWatch, type NodeChange } from '../../../src/node/index.js'
import type { NodeObject, ObjectEvent } from '../../../src/source/index.js'
import { ManualClock, settle } from '../../support/manual-clock.js'
import { service, set } from '../../support/objects.js'
import { MemoryLog } from '../../support/pipeline-lab.js'

const name = 'node-a'
const synced: ObjectEvent = { type: 'synced' }
const deleted: ObjectEvent = { type: 'delete', kind: 'Node', key: { namespace: '', name } }
const internal = { type: 'InternalIP', address: '192.0.2.1' }

function node(changes: Partial<NodeObject> = {}): ObjectEvent {
  const labels = {}
  const object = { kind: 'Node', namespace: '', name, labels, addresses: [], podCIDRs: [] } as const
  return { type: 'set', object: { ...object, taintKeys: [], deleted: false, ...changes } }
}

/** A watch, and the intake that asks it. */
class Lab {
  readonly clock = new ManualClock()
  readonly log = new MemoryLog()
  readonly watch: NodeWatch
  readonly intake: Intake
  readonly families: readonly FamilyIntake[]
  /** The change of the Node's facts that the families got with each delivery. */
  readonly changes: NodeChange[] = []
  end: string | undefined
  readonly node: NodeTracker

  /** `machine`: the addresses of the machine, which is the Node if no manifest has one; undefined: there is an API server. */
  constructor(
    input: ConfigInput,
    families: readonly IpFamily[] = ['ipv4', 'ipv6'],
    machine?: () => Promise<readonly IpAddress[]>,
    doesNotWait = false,
  ) {
    const config = resolveConfig({ manifests: 'm', mode: 'iptables', ...input })
    const { clock, log } = this
    this.node = new NodeTracker(name, config.bindAddress)
    this.watch = new NodeWatch({
      node: this.node,
      config,
      machineAddresses: machine,
      doesNotWait,
      clock,
      log,
    })
    const metrics = openMetrics(new Registry())
    this.intake = new Intake({ config, node: this.watch, metrics })
    const problems = openProblems({ log })
    this.families = families.map((family) =>
      this.intake.openFamily({ family, clock, log, problems, syncPeriodMs: 1000, metrics: metrics[family] }),
    )
    this.watch.end.catch((error: unknown) => {
      assert.ok(error instanceof ConfigError)
      this.end = error.message
    })
  }

  /** The mode is open. */
  open(): this {
    this.intake.open(({ nodeChange }) => this.changes.push(nodeChange))
    return this
  }

  async see(...events: readonly ObjectEvent[]): Promise<void> {
    this.intake.deliver(events)
    await settle()
  }

  /** Whether `synced` counts, or the reason why the agent ends. */
  get outcome(): string {
    return this.end ?? (this.families[0]?.known === 'synced' ? 'ready' : 'waits')
  }

  /** The number of known Services. */
  get serviceCount(): number {
    return this.families[0]?.tracker.servicePortCount ?? 0
  }
}

const nodeCIDR: ConfigInput = { detectLocalMode: 'NodeCIDR' }
const primary: ConfigInput = { nodePortAddresses: ['primary'] }
const podCIDRs = ['10.244.1.0/24']

describe('the first sync waits', () => {
  const cases: readonly {
    readonly name: string
    readonly config: ConfigInput
    readonly events: readonly ObjectEvent[]
    readonly at: 'waits' | 'ready'
    /** Seconds after which the outcome changes, and the new outcome. */
    readonly later?: readonly [number, string]
  }[] = [
    { name: 'for nothing when no rule depends on the Node', config: {}, events: [synced], at: 'ready' },
    {
      name: 'for pod networks with NodeCIDR, 5 minutes',
      config: nodeCIDR,
      events: [node({ addresses: [internal] }), synced],
      at: 'waits',
      later: [300, `timeout waiting for PodCIDR allocation on node "${name}"`],
    },
    {
      name: 'for an absent Node, 5 minutes',
      config: nodeCIDR,
      events: [synced],
      at: 'waits',
      later: [300, `timeout waiting for node "${name}" to exist`],
    },
    {
      name: 'for a deleted Node, 5 minutes',
      config: nodeCIDR,
      events: [node(), synced, deleted],
      at: 'waits',
      later: [300, `timeout waiting for node "${name}" to exist`],
    },
    {
      name: 'without limit while the objects cannot be listed',
      config: nodeCIDR,
      events: [node()],
      at: 'waits',
      later: [3600, 'waits'],
    },
    {
      name: 'not for known pod networks',
      config: nodeCIDR,
      events: [node({ podCIDRs }), synced],
      at: 'ready',
    },
    {
      name: 'for the networks of this Node, not of another one',
      config: nodeCIDR,
      events: [node({ podCIDRs, name: 'other' }), synced],
      at: 'waits',
    },
    {
      name: 'for node IPs with node ports on primary addresses, 30 s',
      config: primary,
      events: [node(), synced],
      at: 'waits',
      later: [30, 'ready'],
    },
    {
      name: 'not for known node IPs',
      config: primary,
      events: [node({ addresses: [internal] }), synced],
      at: 'ready',
    },
    {
      name: 'not for node IPs with --bind-address',
      config: { ...primary, bindAddress: '192.0.2.1' },
      events: [synced],
      at: 'ready',
    },
    {
      name: 'for pod networks 5 minutes, also after the limit for node IPs',
      config: { ...primary, ...nodeCIDR },
      events: [synced],
      at: 'waits',
      later: [300, `timeout waiting for node "${name}" to exist`],
    },
  ]
  for (const { name: title, config, events, at, later } of cases) {
    it(title, async () => {
      const lab = new Lab(config).open()
      await lab.see(...events)
      assert.equal(lab.outcome, at)
      if (later === undefined) return
      const [seconds, outcome] = later
      await lab.clock.advance(seconds * 1000 - 1)
      assert.equal(lab.outcome, 'waits')
      await lab.clock.advance(1)
      assert.equal(lab.outcome, outcome)
    })
  }

  it('only until the facts arrive', async () => {
    const lab = new Lab({ ...nodeCIDR, ...primary }).open()
    await lab.see(synced)
    assert.equal(lab.log.find('info', 'waiting').length, 1)
    await lab.see(node({ podCIDRs }))
    assert.equal(lab.outcome, 'waits')
    await lab.see(node({ podCIDRs, addresses: [internal] }))
    assert.equal(lab.outcome, 'ready')
    assert.equal(lab.clock.pending, 0)
  })

  it('with listed and synced only: all other events count at once', async () => {
    const lab = new Lab(nodeCIDR).open()
    await lab.see(node(), { type: 'listed' }, set(service('a', '10.96.0.1')))
    await lab.see(synced, set(service('b', '10.96.0.2')))
    assert.deepEqual([lab.outcome, lab.serviceCount], ['waits', 2])
    const complete = node({ podCIDRs, addresses: [internal] })
    await lab.see(complete, set(service('c', '10.96.0.3')))
    assert.deepEqual([lab.outcome, lab.serviceCount], ['ready', 3])
    lab.families[0]?.tracker.take()
    await lab.see(node(), set(service('d', '10.96.0.4')))
    assert.equal(lab.serviceCount, 3, 'the agent ends')
    assert.match(lab.end ?? '', /^PodCIDRs changed/u)
  })

  it('and each delivery has its changes of the facts of the Node, the first one those from before the mode was open', async () => {
    const lab = new Lab({})
    const zone = { 'topology.kubernetes.io/zone': 'a' }
    await lab.see(node({ labels: zone }))
    await lab.see(node({ labels: zone, addresses: [internal] }))
    lab.open()
    await lab.see(node({ labels: zone, addresses: [internal], podCIDRs }), synced)
    await lab.see(deleted)
    assert.deepEqual(lab.changes, [
      { routing: true, vipBinding: true, modeSettings: true, places: false },
      { ...noNodeChange, modeSettings: true },
      noNodeChange,
    ])
  })

  it('no longer than the limit from the arrival of synced, also when the kernel was prepared meanwhile', async () => {
    const lab = new Lab(primary)
    await lab.see(node(), synced)
    await lab.clock.advance(20_000)
    lab.open()
    await lab.clock.advance(9_000)
    assert.equal(lab.outcome, 'waits')
    await lab.clock.advance(1_000)
    assert.equal(lab.outcome, 'ready')
  })

  it('for nothing in a plan, which is made at one moment', async () => {
    const lab = new Lab(primary, undefined, undefined, true).open()
    await lab.see(node(), synced)
    await lab.clock.advance(0)
    assert.equal(lab.outcome, 'ready')
  })

  it('for nothing after close()', async () => {
    const lab = new Lab(nodeCIDR).open()
    await lab.see(synced)
    lab.watch.close()
    lab.watch.close()
    assert.equal(lab.clock.pending, 0)
    await lab.see(node({ podCIDRs }))
    assert.equal(lab.outcome, 'waits')
  })
})

describe('a Node that changes', () => {
  const cases: readonly {
    readonly name: string
    readonly config: ConfigInput
    readonly events: readonly ObjectEvent[]
    readonly end?: string
    readonly logged: readonly string[]
  }[] = [
    {
      name: 'F-084 other networks of pods end the agent with NodeCIDR',
      config: nodeCIDR,
      events: [node({ podCIDRs: ['10.244.2.0/24'], addresses: [internal] })],
      end: `PodCIDRs changed for the node "${name}": a restart takes them over`,
      logged: ['PodCIDRs changed for the node'],
    },
    {
      name: 'F-084 removed pod networks end the agent too',
      config: nodeCIDR,
      events: [node({ addresses: [internal] })],
      end: `PodCIDRs changed for the node "${name}": a restart takes them over`,
      logged: ['PodCIDRs changed for the node'],
    },
    {
      name: 'F-084 other pod networks do not end the agent if no setting depends on them',
      config: {},
      events: [node({ podCIDRs: ['10.244.2.0/24'], addresses: [internal] })],
      logged: [],
    },
    {
      name: 'F-084 other IPs are logged',
      config: nodeCIDR,
      events: [node({ podCIDRs, addresses: [{ ...internal, address: '192.0.2.2' }] })],
      logged: ['NodeIPs changed for the node'],
    },
    {
      name: 'F-084 the deletion of the Node is logged; its return without a change is not',
      config: nodeCIDR,
      events: [deleted, node({ podCIDRs, addresses: [internal] })],
      logged: ['Node is deleted: its last known facts stay in force'],
    },
  ]
  for (const { name: title, config, events, end, logged } of cases) {
    it(title, async () => {
      const lab = new Lab(config).open()
      await lab.see(node({ podCIDRs, addresses: [internal] }), synced)
      await lab.see(...events)
      assert.equal(lab.end, end)
      assert.deepEqual(
        lab.log.lines.map(({ message }) => message),
        logged,
      )
    })
  }
})

describe('the families that a node programs', () => {
  const ipv6 = { type: 'InternalIP', address: 'fd00::1' }
  const cases: readonly {
    readonly name: string
    readonly config: ConfigInput
    readonly families: readonly IpFamily[]
    readonly node: Partial<NodeObject>
    readonly outcome: string
  }[] = [
    {
      name: 'F-085 have that of the first IP as the primary one',
      config: {},
      families: ['ipv4'],
      node: { addresses: [{ ...ipv6, type: 'ExternalIP' }, internal] },
      outcome: 'ready',
    },
    {
      name: 'F-085 must include the primary one',
      config: {},
      families: ['ipv4'],
      node: { addresses: [ipv6, internal] },
      outcome: 'no support for primary IP family "IPv6"',
    },
    {
      name: 'F-082 have that of --bind-address as the primary one',
      config: { bindAddress: 'fd00::2' },
      families: ['ipv4'],
      node: { addresses: [internal] },
      outcome: 'no support for primary IP family "IPv6"',
    },
    {
      name: 'F-086 do not fit cluster CIDRs of the other family, on a node of one',
      config: { clusterCIDR: ['fd00:10::/56'] },
      families: ['ipv4'],
      node: { addresses: [internal] },
      outcome: 'cluster is IPv4-only but clusterCIDRs contains only IPv6 addresses',
    },
    {
      name: 'F-086 fit cluster CIDRs of one family, on a node of both',
      config: { clusterCIDR: ['fd00:10::/56'] },
      families: ['ipv4', 'ipv6'],
      node: { addresses: [internal] },
      outcome: 'ready',
    },
    {
      name: 'F-086 fit if one of two cluster CIDRs fits',
      config: { clusterCIDR: ['fd00:10::/56', '10.244.0.0/16'] },
      families: ['ipv4'],
      node: { addresses: [internal] },
      outcome: 'ready',
    },
    {
      name: 'F-086 fit any cluster CIDR if interfaces detect local traffic',
      config: { clusterCIDR: ['fd00:10::/56'], ...nodeCIDR },
      families: ['ipv4'],
      node: { addresses: [internal], podCIDRs },
      outcome: 'ready',
    },
    {
      name: "F-086 are compared with the Node's own networks, on a node of both",
      config: nodeCIDR,
      families: ['ipv4', 'ipv6'],
      node: { addresses: [internal], podCIDRs: ['fd00:10::/64'] },
      outcome: 'cluster is IPv4-primary but node.spec.podCIDRs contains only IPv6 addresses',
    },
  ]
  for (const { name: title, config, families, node: changes, outcome } of cases) {
    it(title, async () => {
      const lab = new Lab(config, families).open()
      await lab.see(node(changes), synced)
      assert.equal(lab.outcome, outcome)
    })
  }
})

describe('without an API server', () => {
  const address = parseIpAddress('192.0.2.1')
  assert.ok(address)
  const machine = async (): Promise<readonly IpAddress[]> => [address]

  it('the machine is the node if no manifest has its Node, and the first sync waits for nothing', async () => {
    // Before the fix: 30 s, and a node that load balancers may not use.
    const lab = new Lab(primary, undefined, machine).open()
    await lab.see(synced)
    assert.equal(lab.outcome, 'ready')
    assert.deepEqual(lab.node.facts.addresses, { ipv4: address })
    assert.equal(lab.node.isEligible, true)
    assert.equal(lab.log.find('info', 'No manifest has the Node: this machine is the node').length, 1)
  })

  it('the Node of a manifest comes first', async () => {
    const lab = new Lab(primary, undefined, machine).open()
    await lab.see(node({ addresses: [{ type: 'InternalIP', address: '198.51.100.7' }] }), synced)
    assert.deepEqual(Object.values(lab.node.facts.addresses), ['198.51.100.7'])
    assert.deepEqual(lab.log.find('info', 'No manifest has the Node'), [])
  })

  it('the facts of a Node stay when its manifest is deleted, and a restart is not needed', async () => {
    const lab = new Lab({ ...primary, ...nodeCIDR }, undefined, machine).open()
    await lab.see(node({ addresses: [{ type: 'InternalIP', address: '198.51.100.7' }], podCIDRs }), synced)
    await lab.see(deleted)
    assert.deepEqual(Object.values(lab.node.facts.addresses), ['198.51.100.7'])
    assert.equal(lab.node.facts.podCIDRs.length, 1)
    assert.equal(lab.end, undefined)
  })

  it('an address that the kernel does not tell delays the first sync by 30 s', async () => {
    const refused = new KernelError({ errno: 1, subsystem: 'route', operation: 'list' })
    const lab = new Lab(primary, undefined, async () => await Promise.reject(refused)).open()
    await lab.see(synced)
    assert.equal(lab.outcome, 'waits')
    assert.equal(lab.log.find('warn', 'The addresses of this machine cannot be read').length, 1)
    await lab.clock.advance(30_000)
    assert.equal(lab.outcome, 'ready')
  })
})
