// Decodes the matches and targets of x_tables in a rule of nf_tables.
import { readAddress, type IpFamily } from '../../../address.js'
import type { NfExpressionOf } from '../../nftables/expressions.js'
import type { XtRule, XtSet, XtTarget } from '../xtables.js'
import {
  addressOffsets,
  addressProgram,
  addressTypeFlags,
  chances,
  localAddress,
  portUnreachable,
  randomFully,
  recentAction,
  sctpFlags,
} from './encode.js'
import { matches, targets } from './info.js'

/** Facts outside a rule that decoding needs. */
export interface DecodeContext {
  readonly family: IpFamily
  /** The set with this number; undefined: the caller does not know it. */
  readonly setOf: (index: number) => string | undefined
}

/** Some parts of a rule; undefined: not those of a rule that Viaduct writes. */
export type XtRuleParts = Partial<XtRule> | undefined

/** The part of a rule that a match is. undefined: Viaduct writes no such match. */
export function decodeMatch(
  { name, revision, info }: NfExpressionOf<'match'>,
  context: DecodeContext,
): XtRuleParts {
  const decoder = matchDecoders.get(`${name} ${revision}`)
  return decoder?.(info, context)
}

/** undefined: Viaduct writes no such target. */
export function decodeTarget(
  { name, revision, info }: NfExpressionOf<'target'>,
  context: DecodeContext,
): XtTarget | undefined {
  const decoder = targetDecoders.get(`${name} ${revision}`)
  return decoder?.(info, context)
}

type Decoder<T> = (info: Uint8Array, context: DecodeContext) => T | undefined

const inverted = { isInverted: true } as const

function senseOf(flag: number): { readonly isInverted?: true } {
  return flag === 0 ? {} : inverted
}

const matchDecoders: ReadonlyMap<string, Decoder<Partial<XtRule>>> = new Map<
  string,
  Decoder<Partial<XtRule>>
>([
  ['tcp 0', (info) => portsOf(matches.tcp.decode(info))],
  ['udp 0', (info) => portsOf(matches.udp.decode(info))],
  ['sctp 0', sctpPortsOf],
  ['mark 1', markOf],
  ['conntrack 3', stateOf],
  ['addrtype 1', addressTypeOf],
  ['set 4', setMatchOf],
  ['bpf 1', programOf],
  ['statistic 0', probabilityOf],
  ['recent 1', recentOf],
  ['comment 0', (info) => matches.comment.decode(info)],
])

interface Ports {
  readonly sourceFrom: number
  readonly sourceTo: number
  readonly destinationFrom: number
  readonly destinationTo: number
}

function portsOf(ports: Ports | undefined): XtRuleParts {
  if (ports === undefined) return undefined
  const { sourceFrom, sourceTo, destinationFrom, destinationTo } = ports
  return {
    ...(isAnyPort(sourceFrom, sourceTo) ? {} : { sourcePorts: [sourceFrom, sourceTo] }),
    ...(isAnyPort(destinationFrom, destinationTo)
      ? {}
      : { destinationPorts: [destinationFrom, destinationTo] }),
  }
}

function isAnyPort(from: number, to: number): boolean {
  return from === 0 && to === 65_535
}

function sctpPortsOf(info: Uint8Array): XtRuleParts {
  const read = matches.sctp.decode(info)
  if (read === undefined || (read.flags & ~(sctpFlags.source | sctpFlags.destination)) !== 0) return undefined
  const { flags, sourceFrom, sourceTo, destinationFrom, destinationTo } = read
  return {
    ...((flags & sctpFlags.source) === 0 ? {} : { sourcePorts: [sourceFrom, sourceTo] }),
    ...((flags & sctpFlags.destination) === 0 ? {} : { destinationPorts: [destinationFrom, destinationTo] }),
  }
}

function markOf(info: Uint8Array): XtRuleParts {
  const read = matches.mark.decode(info)
  if (read === undefined) return undefined
  const { value, mask, isInverted } = read
  return { mark: { value, mask, ...senseOf(isInverted) } }
}

function stateOf(info: Uint8Array): XtRuleParts {
  if (matches.unconfirmed.decode(info) !== undefined) return { isUnconfirmed: true }
  const read = matches.conntrack.decode(info)
  return read === undefined ? undefined : { state: { bits: read.states, ...senseOf(read.isInverted) } }
}

function addressTypeOf(info: Uint8Array): XtRuleParts {
  const read = matches.addrtype.decode(info)
  if (read === undefined) return undefined
  const { source, destination, flags } = read
  const of = source === 0 ? 'destination' : 'source'
  const isLocal = source + destination === localAddress && (source === 0 || destination === 0)
  const isPlain = flags === 0 || flags === addressTypeFlags[of]
  return isLocal && isPlain ? { addressType: { of, ...senseOf(flags) } } : undefined
}

function setMatchOf(info: Uint8Array, context: DecodeContext): XtRuleParts {
  const set = setOf(matches.set.decode(info), context)
  return set === undefined ? undefined : { set }
}

function setOf(
  read: { readonly index: number; readonly dimensions: number; readonly flags: number } | undefined,
  context: DecodeContext,
): XtSet | undefined {
  const name = read === undefined ? undefined : context.setOf(read.index)
  if (read === undefined || name === undefined || read.flags >> (read.dimensions + 1) !== 0) return undefined
  const { dimensions, flags } = read
  const directions = Array.from({ length: dimensions }, (_, i) => ((flags & (2 << i)) === 0 ? 'dst' : 'src'))
  return { name, directions, ...senseOf(flags & 1) }
}

function programOf(info: Uint8Array, { family }: DecodeContext): XtRuleParts {
  return Buffer.from(matches.bpf.encode(addressProgram(family))).equals(info)
    ? { isSourceDestination: true }
    : undefined
}

function probabilityOf(info: Uint8Array): XtRuleParts {
  const read = matches.statistic.decode(info)
  return read === undefined ? undefined : { probability: read.probability / chances }
}

/** The mask has 16 bytes in both families. With `--mask` the tools write only those of the family. */
function recentOf(info: Uint8Array, { family }: DecodeContext): XtRuleParts {
  const read = matches.recent.decode(info)
  if (read === undefined) return undefined
  const { list, action, seconds, mask } = read
  if (mask.subarray(0, addressOffsets[family].length).some((byte) => byte !== 0xff)) return undefined
  if (action === recentAction.set && seconds === 0) return { recent: { list, action: 'set' } }
  if (action === recentAction.check && seconds === 0) return { recent: { list, action: 'check' } }
  const isTimed = action === (recentAction.check | recentAction.reap)
  return isTimed ? { recent: { list, action: 'check', seconds } } : undefined
}

const targetDecoders: ReadonlyMap<string, Decoder<XtTarget>> = new Map<string, Decoder<XtTarget>>([
  ['MARK 2', markTargetOf],
  ['DNAT 2', dnatOf],
  ['MASQUERADE 0', masqueradeOf],
  ['REJECT 0', rejectOf],
  ['SET 3', mapMarkOf],
])

function markTargetOf(info: Uint8Array): XtTarget | undefined {
  const read = targets.MARK.decode(info)
  return read === undefined ? undefined : { kind: 'mark', ...read }
}

function dnatOf(info: Uint8Array, { family }: DecodeContext): XtTarget | undefined {
  const read = targets.DNAT.decode(info)
  if (read === undefined || read.port !== read.lastPort) return undefined
  const { address, lastAddress, port } = read
  if (!Buffer.from(address).equals(lastAddress)) return undefined
  return { kind: 'dnat', address: readAddress(address, 0, family), port }
}

function masqueradeOf(info: Uint8Array, { family }: DecodeContext): XtTarget | undefined {
  const flags = targets[`MASQUERADE ${family}`].decode(info)?.flags
  return flags === 0 || flags === randomFully
    ? { kind: 'masquerade', isRandomFully: flags === randomFully }
    : undefined
}

function rejectOf(info: Uint8Array, { family }: DecodeContext): XtTarget | undefined {
  return targets.REJECT.decode(info)?.kind === portUnreachable[family] ? { kind: 'reject' } : undefined
}

function mapMarkOf(info: Uint8Array, context: DecodeContext): XtTarget | undefined {
  const set = setOf(targets.SET.decode(info), context)
  return set === undefined || set.isInverted === true ? undefined : { kind: 'map-mark', set }
}
