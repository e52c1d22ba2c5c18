// The start waits for facts of this node's Node, and some changes of the Node end the agent (F-080, F-084 to F-086).
import { formatCidr, type IpAddress, type IpFamily } from '../address.js'
import type { Clock } from '../clock.js'
import type { Config } from '../config/index.js'
import { ConfigError, KernelError, orRefusal } from '../errors.js'
import type { Log } from '../log.js'
import type { ObjectEvent } from '../source/index.js'
import { familyProblem } from './config-warnings.js'
import type { NodeChange, NodeFacts, NodeTracker } from './node-tracker.js'

interface NodeWatchOptions {
  /** The facts of this node's Node. Only the watch feeds it. */
  readonly node: NodeTracker
  readonly config: Pick<Config, 'detectLocalMode' | 'clusterCIDR' | 'nodePortAddresses'>
  /**
   * The addresses of this machine, which is the Node where no API server has one. Rejects with KernelError. Absent: there is an API
   * server.
   */
  readonly machineAddresses?: (() => Promise<readonly IpAddress[]>) | undefined
  /** Facts that the Node lacks now count as absent at once, as in a plan, which is made at one moment. Default false. */
  readonly doesNotWait?: boolean | undefined
  readonly clock: Clock
  readonly log: Log
}

/** As in kube-proxy. */
const [longestWaitForPodCIDRsMs, longestWaitForIPsMs] = [300_000, 30_000]

type NodeSetEvent = Extract<ObjectEvent, { readonly type: 'set' }>

type Deliver = (events: readonly ObjectEvent[]) => void

/**
 * Tells when `listed` and `synced` count, without which no rule is written: when the Node has the facts that the rules need. These are its
 * pods' networks with detectLocalMode NodeCIDR, and its IPs with node ports on `primary` addresses.
 */
export class NodeWatch {
  /** Never resolves. Rejects with a ConfigError when the agent must end; no event counts afterwards. */
  readonly end: Promise<never>
  readonly #options: NodeWatchOptions
  readonly #timers: (() => void)[] = []
  #reject: (error: ConfigError) => void = () => {}
  /** Families that this kernel can program. */
  #families: readonly IpFamily[] = []
  #deliver: Deliver = () => {}
  /** The time of the first `listed` or `synced`: the longest waits count from then. */
  #listedMs: number | undefined
  /** Whether the Node exists now. */
  #isThere = false
  /** A Node has existed. Its last known facts stay in force. */
  #wasThere = false
  #hasWaitedForIPs = false
  /** The Node with the machine's addresses is being made. */
  #isMakingNode = false
  /** It was tried since the last event. */
  #hasMadeNode = false
  /** Milestones count. */
  #isOpen = false
  #hasEnded = false

  constructor(options: NodeWatchOptions) {
    this.#options = options
    this.end = new Promise<never>((_resolve, reject) => (this.#reject = reject))
    // The agent may await it later.
    this.end.catch(() => undefined)
  }

  /** `families`: those that this kernel can program. `deliver`: called when `mayProceed` may have changed, with a Node that the watch made. */
  open(families: readonly IpFamily[], deliver: Deliver): void {
    this.#families = families
    this.#deliver = deliver
  }

  /** The agent ends: no event counts any more. */
  get hasEnded(): boolean {
    return this.#hasEnded
  }

  /** Applies the event to the facts of the Node. */
  note(event: ObjectEvent): NodeChange {
    const { node, clock, log } = this.#options
    const before = node.facts
    const { name } = before
    this.#hasMadeNode = false
    const change = node.apply(event)
    if (event.type === 'listed' || event.type === 'synced') this.#listedMs ??= clock.now()
    else if (event.type === 'delete' && event.kind === 'Node' && event.key.name === name) {
      this.#isThere = false
      log.info('Node is deleted: its last known facts stay in force', { node: name })
    } else if (event.type === 'set' && event.object.kind === 'Node' && event.object.name === name) {
      this.#isThere = true
      this.#wasThere = true
      this.#compare(before, node.facts)
    }
    return change
  }

  /** Called while a `listed` or a `synced` waits. Returns whether it counts now. */
  mayProceed(): boolean {
    if (!this.#wasThere && !this.#hasMadeNode) this.#makeNode()
    if (this.#hasEnded || this.#isMakingNode) return false
    return this.#isOpen || this.#mayOpen()
  }

  /** Ends all waits. No event counts afterwards. Idempotent. */
  close(): void {
    this.#hasEnded = true
    this.#cancelWait()
  }

  /** Without an API server and without a Node among the manifests, the machine itself is the Node. */
  #makeNode(): void {
    const { machineAddresses } = this.#options
    if (machineAddresses === undefined || this.#isMakingNode) return
    this.#isMakingNode = true
    this.#hasMadeNode = true
    void this.#madeNode(machineAddresses).then((event) => {
      this.#isMakingNode = false
      if (!this.#hasEnded) this.#deliver(event === undefined || this.#isThere ? [] : [event])
    })
  }

  /** undefined: the kernel refuses to list the addresses. */
  async #madeNode(addresses: () => Promise<readonly IpAddress[]>): Promise<NodeSetEvent | undefined> {
    const { node, log } = this.#options
    const { name } = node.facts
    const found = await orRefusal(addresses)
    if (found instanceof KernelError) {
      log.warn('The addresses of this machine cannot be read, and no manifest has its Node', {
        node: name,
        err: found,
      })
      return undefined
    }
    log.info('No manifest has the Node: this machine is the node', { node: name, nodeIPs: found })
    const internal = found.map((address) => ({ type: 'InternalIP', address }))
    const object = { kind: 'Node', namespace: '', name, labels: {}, addresses: internal } as const
    return { type: 'set', object: { ...object, podCIDRs: [], taintKeys: [], deleted: false } }
  }

  #cancelWait(): void {
    for (const cancel of this.#timers.splice(0)) cancel()
  }

  #finish(why: string): void {
    this.close()
    this.#reject(new ConfigError('', why))
  }

  /** Logs a change of the node's IPs. With detectLocalMode NodeCIDR, other networks of pods end the agent after the start (F-084). */
  #compare(before: NodeFacts, after: NodeFacts): void {
    const { log, config } = this.#options
    const { name } = after
    const [oldIPs, newIPs] = [Object.values(before.addresses), Object.values(after.addresses)]
    if (oldIPs.length > 0 && oldIPs.join() !== newIPs.join())
      log.info('NodeIPs changed for the node', { node: name, oldNodeIPs: oldIPs, newNodeIPs: newIPs })
    const [oldPodCIDRs, newPodCIDRs] = [before.podCIDRs.map(formatCidr), after.podCIDRs.map(formatCidr)]
    if (!this.#isOpen || config.detectLocalMode !== 'NodeCIDR' || oldPodCIDRs.join() === newPodCIDRs.join())
      return
    log.info('PodCIDRs changed for the node', { node: name, oldPodCIDRs, newPodCIDRs })
    this.#finish(`PodCIDRs changed for the node "${name}": a restart takes them over`)
  }

  #mayOpen(): boolean {
    if (!this.#hasWhatIsNeeded()) {
      if (this.#timers.length === 0) this.#wait()
      return false
    }
    this.#cancelWait()
    this.#isOpen = true
    const { config, node } = this.#options
    const { primaryFamily, facts } = node
    const problem = familyProblem({ config, families: this.#families, primaryFamily, node: facts })
    if (problem !== undefined) this.#finish(problem)
    return problem === undefined
  }

  #hasWhatIsNeeded(): boolean {
    const { detectLocalMode, nodePortAddresses } = this.#options.config
    const { podCIDRs, addresses } = this.#options.node.facts
    if (detectLocalMode === 'NodeCIDR' && podCIDRs.length === 0) return false
    return (
      !nodePortAddresses.includes('primary') || Object.keys(addresses).length > 0 || this.#hasWaitedForIPs
    )
  }

  /**
   * A wait for the pods' networks that is too long ends the agent: without them no rule can recognize pods. A wait for the IPs that is
   * too long ends without them: node ports are on all addresses (Q-01).
   */
  #wait(): void {
    const { node, config, clock, log, doesNotWait = false } = this.#options
    const waitedMs = doesNotWait ? Infinity : clock.now() - (this.#listedMs ?? clock.now())
    const needs = {
      podCIDRs: config.detectLocalMode === 'NodeCIDR',
      IPs: config.nodePortAddresses.includes('primary'),
    }
    const waitsFor = Object.entries(needs).flatMap(([need, isNeeded]) => (isNeeded ? [need] : []))
    log.info('The Node lacks facts that the rules need: waiting for them', {
      node: node.facts.name,
      waitsFor,
    })
    const scheduleAfter = (longestMs: number, wake: () => void): void =>
      void this.#timers.push(clock.schedule(Math.max(0, longestMs - waitedMs), wake))
    if (needs.podCIDRs) scheduleAfter(longestWaitForPodCIDRsMs, () => this.#giveUp())
    if (!needs.IPs) return
    const goOn = (): void => {
      this.#hasWaitedForIPs = true
      this.#deliver([])
    }
    scheduleAfter(longestWaitForIPsMs, goOn)
  }

  #giveUp(): void {
    const { name } = this.#options.node.facts
    const what = this.#isThere ? `PodCIDR allocation on node "${name}"` : `node "${name}" to exist`
    this.#finish(`timeout waiting for ${what}`)
  }
}
