// The ownership of virtual servers, VIPs and marks, by the acknowledged entries of a family's sets.
import { familyOf, type IpAddress, type IpFamily } from '../../../address.js'
import { BugError } from '../../../errors.js'
import type { VirtualServerKey } from '../../../kernel/index.js'
import { markAddress, type SetKey, setKeys, sourceKeepingSets } from '../compile/sets.js'
import { type EntryId, entryIdOf, frontendIdOf } from './ipset-id.js'
import { absent, SetState } from './ipset-set.js'

/** The sets of one family. After a restart they show which virtual servers and VIPs are ours. */
export class AcknowledgedSets {
  protected readonly family: IpFamily
  protected readonly sets: ReadonlyMap<SetKey, SetState>
  protected readonly inOrder: readonly SetState[]

  constructor(family: IpFamily) {
    this.family = family
    this.inOrder = setKeys.map((key) => new SetState(key, family))
    this.sets = new Map(this.inOrder.map((set) => [set.key, set]))
  }

  /** Names of all sets. */
  get names(): ReadonlyMap<SetKey, string> {
    return new Map([...this.sets].map(([key, { name }]) => [key, name]))
  }

  /** Whether the kernel has no entry in any of the sets. */
  get isEmpty(): boolean {
    return this.inOrder.every(({ members }) => members.acknowledgedCount === 0)
  }

  /** Whether an acknowledged entry names the address as a VIP. */
  marksVip(address: IpAddress): boolean {
    return this.#has('vips', addressIdOf(address))
  }

  /**
   * Whether acknowledged entries prove that a virtual server is ours, with or without a binding of its address. Most node ports
   * have no address in their set: they are ours only at present or former addresses of the node.
   */
  marksOurs(server: VirtualServerKey, isOfNode: (address: IpAddress) => boolean): boolean {
    if ('mark' in server) return this.#has('marks', this.#markId(server.mark))
    const { address, port, protocol } = server
    const id = frontendIdOf(address, protocol, port)
    const isFrontend = (['clusterIP', 'externalIP', 'externalIPLocal', 'loadBalancer'] as const).some((key) =>
      this.#has(key, id),
    )
    if (isFrontend) return true
    if (protocol === 'sctp') return this.#has('nodePortSctp', id)
    if (!isOfNode(address) && !this.#has('nodePortIPs', addressIdOf(address))) return false
    return this.#has(protocol === 'tcp' ? 'nodePortTcp' : 'nodePortUdp', portIdOf(port))
  }

  /** Whether acknowledged entries keep the source of packets from outside to this frontend. */
  keepsSource(server: VirtualServerKey): boolean {
    const isAny = this.inOrder.some(
      ({ key, members }) => sourceKeepingSets.has(key) && members.acknowledgedCount > 0,
    )
    if ('mark' in server || !isAny) return false
    const { address, port, protocol } = server
    const id = frontendIdOf(address, protocol, port)
    if (this.#has('externalIPLocal', id) || this.#has('loadBalancerLocal', id)) return true
    if (protocol === 'sctp') return this.#has('nodePortLocalSctp', id)
    return this.#has(protocol === 'tcp' ? 'nodePortLocalTcp' : 'nodePortLocalUdp', portIdOf(port))
  }

  /** The mark to which the kernel leads a frontend; undefined: none. */
  markAt(server: VirtualServerKey): number | undefined {
    if ('mark' in server) return undefined
    const id = frontendIdOf(server.address, server.protocol, server.port)
    const mark = this.set('marked').members.get(id)?.acknowledged ?? absent
    return mark > 0 ? mark : undefined
  }

  /** Whether the kernel has a former, unclaimed virtual server of this mark. */
  isMarkTaken(mark: number): boolean {
    const member = this.set('marks').members.get(this.#markId(mark))
    return member !== undefined && member.isAcknowledged && member.holders === 0
  }

  /** Whether a virtual server of this mark exists to which no frontend leads: its owner lost all frontends to others. */
  isMarkIdle(mark: number): boolean {
    return this.isMarkTaken(mark) && !this.leads().has(mark)
  }

  /** The acknowledged marks of all frontends. Walks all frontends with marks. */
  leads(): ReadonlySet<number> {
    return new Set([...this.set('marked').members.values()].map(({ acknowledged }) => acknowledged))
  }

  #markId(mark: number): EntryId {
    return addressIdOf(markAddress(mark, this.family))
  }

  #has(key: SetKey, id: EntryId): boolean {
    return this.set(key).members.get(id)?.isAcknowledged === true
  }

  protected set(key: SetKey): SetState {
    const set = this.sets.get(key)
    if (set === undefined) throw new BugError(`there is no set ${key}`)
    return set
  }
}

/** The identity of an address in the sets of addresses. */
function addressIdOf(address: IpAddress): EntryId {
  return entryIdOf('hash:ip', familyOf(address), { address })
}

function portIdOf(port: number): EntryId {
  return entryIdOf('bitmap:port', 'ipv4', { port })
}
