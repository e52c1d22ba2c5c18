// Packs operations on x_tables into records (native/xtables/record.h).
import { writeAddress, type IpAddress, type IpFamily } from '../../address.js'
import { BugError } from '../../errors.js'
import { protocolNumber } from '../ipvs/encode.js'
import { hostPrefixLength, recordBuffer, type RecordBuffer } from '../records.js'
import {
  chainLayout,
  constant,
  invertBit as invert,
  matchBit as match,
  opNumber,
  ruleLayout as layout,
  targetNumber,
} from './layout.js'
import { xtHooks, type XtOp, type XtRule, type XtSet, type XtTableName, type XtTarget } from './xtables.js'

/** Targets that the kernel accepts in one table only. */
const tableOfTarget: Readonly<Partial<Record<XtTarget['kind'], XtTableName>>> = {
  dnat: 'nat',
  masquerade: 'nat',
  reject: 'filter',
  'map-mark': 'mangle',
}

const { noText } = constant
/** IPSET_DIM_MAX of linux/netfilter/ipset/ip_set.h. */
const maxSetDimensions = 6
/** The statistic match has probabilities in units of 2^-31. */
const chances = 2 ** 31

/** Limits of the kernel's fields, without the final NUL. Chain names are one byte shorter, as in the iptables tools. */
const textKinds = {
  chain: { what: 'chain name', limit: 28, pattern: /^[!-~]+$/ },
  interface: { what: 'interface', limit: 15, pattern: /^[!-.0-~]+$/ },
  recent: { what: 'recent list', limit: 199, pattern: /^[!-.0-~]+$/ },
  set: { what: 'set name', limit: 31, pattern: /^[!-~]+$/ },
  comment: { what: 'comment', limit: 255, pattern: /^\P{Cc}*$/u },
} as const
type TextKind = keyof typeof textKinds

/** The table of a batch. Addresses, hooks and targets must fit it. */
export interface XtPlace {
  readonly family: IpFamily
  readonly table: XtTableName
}

/** A packed batch. `texts`: NUL-ended; records refer to a text by its index. */
export interface EncodedXtBatch {
  readonly chains: Uint8Array
  readonly rules: Uint8Array
  readonly texts: Uint8Array
}

/** NUL-ended texts one after the other. Without texts: no bytes. */
export function encodeTexts(texts: readonly string[]): Uint8Array {
  return texts.length === 0 ? new Uint8Array() : Buffer.from(`${texts.join('\0')}\0`, 'utf8')
}

/** Fills zeroed tables of sufficient size. Creates no object per rule: a cold start has 100,000 rules. */
class XtBatchWriter {
  readonly #place: XtPlace
  readonly #hostPrefix: number
  readonly #hooks: readonly string[]
  readonly #chains: RecordBuffer
  readonly #rules: RecordBuffer
  readonly #texts: string[] = []
  readonly #numbers: Readonly<Record<TextKind, Map<string, number>>> = {
    chain: new Map(),
    interface: new Map(),
    recent: new Map(),
    set: new Map(),
    comment: new Map(),
  }
  #nextChain = 0
  #nextRule = 0
  /** For errors: the current chain and the offset of its first rule. */
  #chain = ''
  #firstRule = 0

  constructor(place: XtPlace, chainCount: number, ruleCount: number) {
    this.#place = place
    this.#hostPrefix = hostPrefixLength(place.family)
    this.#hooks = xtHooks[place.table]
    this.#chains = recordBuffer(chainCount * chainLayout.size)
    this.#rules = recordBuffer(ruleCount * layout.size)
  }

  write(op: XtOp): void {
    const rules = op.op === 'remove-chain' ? [] : op.rules
    const at = this.#nextChain
    const { view, bytes } = this.#chains
    this.#chain = op.chain
    this.#firstRule = this.#nextRule
    this.#checkChain(op)
    view.setUint32(at + chainLayout.name, this.#text('chain', op.chain), true)
    view.setUint32(at + chainLayout.firstRule, this.#nextRule / layout.size, true)
    view.setUint32(at + chainLayout.ruleCount, rules.length, true)
    bytes[at + chainLayout.op] = opNumber[op.op]
    this.#nextChain += chainLayout.size
    for (const rule of rules) this.#writeRule(rule)
  }

  finish(): EncodedXtBatch {
    return { chains: this.#chains.bytes, rules: this.#rules.bytes, texts: encodeTexts(this.#texts) }
  }

  #checkChain(op: XtOp): void {
    const isHook = this.#hooks.includes(op.chain)
    if (op.op === 'set-hook' ? isHook : !isHook) return
    this.#fail(isHook ? 'is a built-in chain of the kernel' : `is not a hook of table ${this.#place.table}`)
  }

  #writeRule(rule: XtRule): void {
    this.#writeNetworks(rule)
    this.#writeInterfaces(rule)
    const { view, bytes } = this.#rules
    const at = this.#nextRule
    if (rule.protocol !== undefined) bytes[at + layout.protocol] = protocolNumber[rule.protocol]
    view.setUint32(
      at + layout.comment,
      rule.comment === undefined ? noText : this.#text('comment', rule.comment),
      true,
    )
    const matches = this.#writePorts(rule) | this.#writeMatches(rule) | this.#writeNamedMatches(rule)
    view.setUint16(at + layout.matches, matches, true)
    view.setUint16(at + layout.inverts, invertsOf(rule), true)
    this.#writeTarget(rule)
    this.#nextRule += layout.size
  }

  #writeNetworks({ source, destination }: XtRule): void {
    const { bytes } = this.#rules
    const at = this.#nextRule
    if (source !== undefined) {
      this.#writeNetwork(at + layout.source, source.address, source.prefixLength)
      bytes[at + layout.sourcePrefix] = source.prefixLength
    }
    if (destination !== undefined) {
      this.#writeNetwork(at + layout.destination, destination.address, destination.prefixLength)
      bytes[at + layout.destinationPrefix] = destination.prefixLength
    }
  }

  #writeNetwork(at: number, address: IpAddress, prefixLength: number): void {
    this.#writeAddress(at, address)
    if (!(prefixLength >= 0 && prefixLength <= this.#hostPrefix))
      this.#failRule(`${address}/${prefixLength} is not a network`)
  }

  #writeAddress(at: number, address: IpAddress): void {
    const { family } = this.#place
    if (writeAddress(address, this.#rules.bytes, at) !== family)
      this.#failRule(`${address} is not an ${family} address`)
  }

  #writeInterfaces({ inInterface, outInterface }: XtRule): void {
    const { view } = this.#rules
    const at = this.#nextRule
    const into = inInterface === undefined ? noText : this.#text('interface', inInterface.name)
    const out = outInterface === undefined ? noText : this.#text('interface', outInterface.name)
    view.setUint32(at + layout.inInterface, into, true)
    view.setUint32(at + layout.outInterface, out, true)
  }

  /** Returns Match bits, like the next two methods. */
  #writePorts({ protocol, sourcePorts, destinationPorts }: XtRule): number {
    if (sourcePorts === undefined && destinationPorts === undefined) return 0
    const { view } = this.#rules
    const at = this.#nextRule
    let matches = 0
    if (protocol === undefined) this.#failRule('has ports without a protocol')
    if (sourcePorts !== undefined) {
      this.#checkPorts(sourcePorts)
      view.setUint16(at + layout.sourcePortFrom, sourcePorts[0], true)
      view.setUint16(at + layout.sourcePortTo, sourcePorts[1], true)
      matches |= match.sourcePorts
    }
    if (destinationPorts !== undefined) {
      this.#checkPorts(destinationPorts)
      view.setUint16(at + layout.destinationPortFrom, destinationPorts[0], true)
      view.setUint16(at + layout.destinationPortTo, destinationPorts[1], true)
      matches |= match.destinationPorts
    }
    return matches
  }

  #checkPorts([from, to]: readonly [number, number]): void {
    if (isPort(from) && isPort(to) && from <= to) return
    this.#failRule(`${from}:${to} is not a port range`)
  }

  #writeMatches({
    mark,
    state,
    isUnconfirmed,
    addressType,
    isSourceDestination,
    probability,
  }: XtRule): number {
    const { view, bytes } = this.#rules
    const at = this.#nextRule
    let matches = isSourceDestination === true ? match.sourceDestination : 0
    if (isUnconfirmed === true) matches |= match.unconfirmed
    if (mark !== undefined) {
      this.#writeNumber(layout.markValue, mark.value)
      this.#writeNumber(layout.markMask, mark.mask)
      matches |= match.mark
    }
    if (state !== undefined) {
      if (!(state.bits > 0 && state.bits <= 0xffff)) this.#failRule(`${state.bits} is not a state mask`)
      view.setUint16(at + layout.state, state.bits, true)
      matches |= match.state
    }
    if (addressType !== undefined) {
      bytes[at + layout.addressType] = addressType.of === 'source' ? 1 : 2
      matches |= match.addressType
    }
    if (probability !== undefined) {
      if (!(probability > 0 && probability < 1))
        this.#failRule(`${probability} is not a probability between 0 and 1`)
      view.setUint32(at + layout.probability, Math.round(probability * chances), true)
      matches |= match.statistic
    }
    return matches
  }

  #writeNamedMatches({ set, recent, target }: XtRule): number {
    const { view, bytes } = this.#rules
    const at = this.#nextRule
    let matches = 0
    const mapped = target.kind === 'map-mark' ? target.set : undefined
    if (set !== undefined && mapped !== undefined)
      this.#failRule(`names two sets, ${set.name} and ${mapped.name}`)
    this.#writeSet(set ?? mapped)
    if (set !== undefined) matches |= match.set
    view.setUint32(
      at + layout.recentList,
      recent === undefined ? noText : this.#text('recent', recent.list),
      true,
    )
    if (recent !== undefined) {
      bytes[at + layout.recentCheck] = recent.action === 'check' ? 1 : 0
      if (recent.seconds !== undefined) this.#writeNumber(layout.recentSeconds, recent.seconds)
      matches |= match.recent
    }
    return matches
  }

  #writeSet(set: XtSet | undefined): void {
    const { view, bytes } = this.#rules
    const at = this.#nextRule
    view.setUint32(at + layout.setName, set === undefined ? noText : this.#text('set', set.name), true)
    if (set === undefined) return
    const { directions } = set
    if (!(directions.length >= 1 && directions.length <= maxSetDimensions))
      this.#failRule(
        `set ${set.name} has ${directions.length} dimensions instead of 1 to ${maxSetDimensions}`,
      )
    bytes[at + layout.setDimensions] = directions.length
    let sources = 0
    for (let i = 0; i < directions.length; i++) if (directions[i] === 'src') sources |= 1 << i
    bytes[at + layout.setSources] = sources
  }

  #writeTarget({ target, protocol }: XtRule): void {
    const { view, bytes } = this.#rules
    const at = this.#nextRule
    const only = tableOfTarget[target.kind]
    if (only !== undefined && only !== this.#place.table)
      this.#failRule(`${target.kind} is possible only in table ${only}`)
    bytes[at + layout.target] = targetNumber[target.kind]
    let chain: number = noText
    switch (target.kind) {
      case 'jump':
      case 'goto':
        if (this.#hooks.includes(target.chain))
          this.#failRule(`jumps to ${target.chain}, a built-in chain of the kernel`)
        chain = this.#text('chain', target.chain)
        break
      case 'mark':
        this.#writeNumber(layout.targetValue, target.value)
        this.#writeNumber(layout.targetMask, target.mask)
        break
      case 'dnat':
        this.#writeAddress(at + layout.natAddress, target.address)
        if (!isPort(target.port) || target.port === 0) this.#failRule(`${target.port} is not a port`)
        if (protocol === undefined) this.#failRule('has dnat without a protocol')
        view.setUint16(at + layout.natPort, target.port, true)
        break
      case 'masquerade':
        view.setUint32(at + layout.targetValue, target.isRandomFully ? 1 : 0, true)
        break
      case 'accept':
      case 'drop':
      case 'return':
      case 'reject':
      case 'map-mark': // #writeNamedMatches
        break
    }
    view.setUint32(at + layout.targetChain, chain, true)
  }

  #writeNumber(field: number, value: number): void {
    if (value >>> 0 !== value) this.#failRule(`${value} is not a 32-bit number`)
    this.#rules.view.setUint32(this.#nextRule + field, value, true)
  }

  /** Index of the text. */
  #text(kind: TextKind, text: string): number {
    const numbers = this.#numbers[kind]
    const known = numbers.get(text)
    if (known !== undefined) return known
    const { what, limit, pattern } = textKinds[kind]
    if (!pattern.test(text) || Buffer.byteLength(text) > limit)
      this.#failRule(`${JSON.stringify(text)} is not a valid ${what} (at most ${limit} bytes)`)
    const number = this.#texts.push(text) - 1
    numbers.set(text, number)
    return number
  }

  #fail(problem: string): never {
    throw new BugError(`${this.#place.family} ${this.#place.table}: ${this.#chain}: ${problem}`)
  }

  #failRule(problem: string): never {
    const number = (this.#nextRule - this.#firstRule) / layout.size + 1
    this.#fail(`rule ${number}: ${problem}`)
  }
}

function isPort(port: number): boolean {
  return (port & 0xffff) === port
}

function invertsOf(rule: XtRule): number {
  let inverts = 0
  if (rule.source?.isInverted === true) inverts |= invert.source
  if (rule.destination?.isInverted === true) inverts |= invert.destination
  if (rule.inInterface?.isInverted === true) inverts |= invert.inInterface
  if (rule.outInterface?.isInverted === true) inverts |= invert.outInterface
  if (rule.mark?.isInverted === true) inverts |= invert.mark
  if (rule.state?.isInverted === true) inverts |= invert.state
  if (rule.addressType?.isInverted === true) inverts |= invert.addressType
  if (rule.set?.isInverted === true) inverts |= invert.set
  return inverts
}

/** Packs a batch. Throws BugError with chain and rule if the kernel cannot store it. */
export function encodeXtBatch(ops: readonly XtOp[], place: XtPlace): EncodedXtBatch {
  let rules = 0
  for (const op of ops) if (op.op !== 'remove-chain') rules += op.rules.length
  const writer = new XtBatchWriter(place, ops.length, rules)
  for (const op of ops) writer.write(op)
  return writer.finish()
}
