// Prints rules in nft's syntax. Follows the content of each register from expression to expression. Prints in brackets what nft's
// syntax cannot express.
import type { IpFamily } from '../../address.js'
import type { NfRegister } from './codec.js'
import type { NfExpression, NfExpressionOf } from './expressions.js'
import type { NfField } from './fields.js'
import type { NfSet } from './objects.js'
import { printElements, printVerdict } from './print-elements.js'
import { bigEndian, printBytes, printField, printTime, quote } from './print-values.js'

/** The content of a register, from its first word on. */
interface Held {
  readonly text: string
  readonly field?: NfField
  readonly words: number
  /** The value of an immediate. Its use decides how it is printed. */
  readonly value?: Uint8Array
  /** Whether it is the result of a map. */
  readonly isMapped?: boolean
  /** The first bytes of an address of so many bytes: they are compared with a network. */
  readonly prefixOf?: number
}

/** `10.1.0.0/16`, by the bytes of the network. */
function printNetwork(value: Uint8Array, bytes: number): string {
  const address = new Uint8Array(bytes)
  address.set(value)
  return `${printField(bytes === 4 ? 'ipv4_addr' : 'ipv6_addr', address)}/${8 * value.length}`
}

/** Finds a set of the rule's table. undefined: the set is unknown. */
export type FindSet = (name: string) => NfSet | undefined

/** The expressions of a rule, without its comment. */
export function printExpressions(
  family: IpFamily,
  expressions: readonly NfExpression[],
  findSet: FindSet = () => undefined,
): string {
  const printer = new RulePrinter(family, findSet)
  return expressions.flatMap((expression) => printer.print(expression) ?? []).join(' ')
}

const loads = {
  ipv4: { '12 4': 'ip saddr', '16 4': 'ip daddr' },
  ipv6: { '8 16': 'ip6 saddr', '24 16': 'ip6 daddr' },
  transport: { '0 2': 'th sport', '2 2': 'th dport' },
} as const satisfies Readonly<Record<string, Readonly<Record<string, NfField>>>>

const bases: Readonly<Record<string, string>> = { link: 'll', network: 'nh', transport: 'th' }

/** Types of meta keys whose values are not printed as plain numbers. */
const metaFields: Readonly<Record<string, NfField>> = {
  mark: 'mark',
  l4proto: 'inet_proto',
  iifname: 'ifname',
  oifname: 'ifname',
}

const ctFields: Readonly<Record<string, NfField>> = {
  mark: 'mark',
  protocol: 'inet_proto',
  'proto-src': 'inet_service',
  'proto-dst': 'inet_service',
  'ip saddr': 'ipv4_addr',
  'ip daddr': 'ipv4_addr',
  'ip6 saddr': 'ipv6_addr',
  'ip6 daddr': 'ipv6_addr',
}

/** Bits of ct state and ct status by name (enum ip_conntrack_info, ip_conntrack_status). */
const ctBits: Readonly<Record<string, readonly (readonly [string, number])[]>> = {
  'ct state': [
    ['invalid', 1],
    ['established', 2],
    ['related', 4],
    ['new', 8],
    ['untracked', 64],
  ],
  'ct status': [
    ['expected', 1],
    ['seen-reply', 2],
    ['assured', 4],
    ['confirmed', 8],
    ['snat', 16],
    ['dnat', 32],
  ],
}

const addressTypes: readonly string[] = ['unspec', 'unicast', 'local', 'broadcast', 'anycast', 'multicast']

class RulePrinter {
  readonly #family: IpFamily
  readonly #findSet: FindSet
  readonly #held = new Map<number, Held>()

  constructor(family: IpFamily, findSet: FindSet) {
    this.#family = family
    this.#findSet = findSet
  }

  /** undefined: the expression only loads a register. */
  print(expression: NfExpression): string | undefined {
    switch (expression.kind) {
      case 'payload':
        return this.#payload(expression)
      case 'meta':
        return this.#keyed(expression, `meta ${expression.key}`, metaFields[expression.key])
      case 'ct':
        return this.#ct(expression)
      case 'fib':
        return this.#fib(expression)
      case 'numgen':
      case 'hash':
        return this.#number(expression)
      case 'bitwise':
        return this.#bitwise(expression)
      case 'byteorder':
        return this.#swap(expression)
      case 'lookup':
        return this.#lookup(expression)
      case 'cmp':
      case 'range':
        return this.#compare(expression)
      case 'immediate':
        return this.#immediate(expression)
      case 'nat':
      case 'masq':
        return this.#translate(expression)
      case 'dynset':
        return this.#dynset(expression)
      case 'reject':
        return printReject(expression, this.#family)
      default:
        return printStatement(expression)
    }
  }

  #load(to: NfRegister | undefined, held: Omit<Held, 'words'> & { readonly words?: number }): undefined {
    if (typeof to === 'number') this.#held.set(to, { words: 1, ...held })
  }

  /** The values in consecutive registers from `from`, up to a gap; at most `parts`. */
  #read(from: NfRegister | undefined, parts = Infinity): readonly Held[] {
    const held: Held[] = []
    let word = typeof from === 'number' ? from : -1
    for (let next = this.#held.get(word); next !== undefined; next = this.#held.get(word)) {
      if (held.length >= parts) break
      held.push(next)
      word += next.words
    }
    return held
  }

  /** The register's value as text. An immediate is printed as a value of the field. */
  #text(from: NfRegister | undefined, field?: NfField): string {
    const [held] = this.#read(from, 1)
    if (held === undefined) return `[register ${from ?? '?'}]`
    if (held.value === undefined) return held.text
    return field === undefined ? printBytes(held.value) : printField(field, held.value)
  }

  #key(from: NfRegister, set: NfSet | undefined): string {
    return this.#read(from, set?.key.length)
      .map(({ text }) => text)
      .join(' . ')
  }

  #payload({ to, base, offset, length }: NfExpressionOf<'payload'>): undefined {
    const known: Readonly<Record<string, NfField>> =
      base === 'network' ? loads[this.#family] : loads.transport
    const field = base === 'link' ? undefined : known[`${offset} ${length}`]
    const words = Math.ceil(length / 4)
    const bytes = this.#family === 'ipv4' ? 4 : 16
    const address = base === 'network' && length < bytes ? known[`${offset} ${bytes}`] : undefined
    if (address !== undefined) return this.#load(to, { text: address, words, prefixOf: bytes })
    const text = field ?? `@${bases[base] ?? base},${offset * 8},${length * 8}`
    return this.#load(to, { text, words, ...(field === undefined ? {} : { field }) })
  }

  /** An expression that loads a key into a register, or sets the key. */
  #keyed(
    { to, from }: { readonly to?: NfRegister; readonly from?: NfRegister },
    text: string,
    field: NfField | undefined,
  ): string | undefined {
    if (from !== undefined) return `${text} set ${this.#text(from, field)}`
    const words = field === 'ipv6_addr' || field === 'ifname' ? 4 : 1
    return this.#load(to, { text, words, ...(field === undefined ? {} : { field }) })
  }

  #ct(expression: NfExpressionOf<'ct'>): string | undefined {
    const { key, direction } = expression
    const way = direction === undefined ? '' : direction === 0 ? 'original ' : 'reply '
    return this.#keyed(expression, `ct ${way}${key}`, ctFields[key])
  }

  #fib({ to, result, flags }: NfExpressionOf<'fib'>): undefined {
    const names = ['saddr', 'daddr', 'mark', 'iif', 'oif'].filter((_, bit) => (flags & (1 << bit)) !== 0)
    return this.#load(to, { text: `fib ${names.join(' . ')} ${result}` })
  }

  #number(expression: NfExpressionOf<'numgen' | 'hash'>): undefined {
    const { modulus, offset = 0, to } = expression
    const end = ` mod ${modulus}${offset === 0 ? '' : ` offset ${offset}`}`
    if (expression.kind === 'numgen')
      return this.#load(to, { text: `numgen ${expression.type}${end}`, field: 'integer' })
    const { type = 'jenkins', from, seed } = expression
    const what = type === 'symmetric' ? 'symhash' : `jhash ${this.#key(from ?? 0, undefined)}`
    const start = seed === undefined ? '' : ` seed 0x${seed.toString(16)}`
    return this.#load(to, { text: `${what}${end.replace(/( offset|$)/, `${start}$1`)}`, field: 'integer' })
  }

  /** nft does not show the order of bytes. */
  #swap({ from, to }: NfExpressionOf<'byteorder'>): undefined {
    const [held] = this.#read(from, 1)
    return held === undefined ? undefined : this.#load(to, held)
  }

  #bitwise({ from, to, mask, xor, op = 0, data }: NfExpressionOf<'bitwise'>): undefined {
    const [held] = this.#read(from, 1)
    if (held === undefined) return undefined
    const { field } = held
    const print = (value: Uint8Array): string =>
      field === undefined ? printBytes(value) : printField(field, value)
    if (mask === undefined || xor === undefined || op !== 0) {
      const sign = op === 1 ? '<<' : '>>'
      return this.#load(to, { ...held, text: `${held.text} ${sign} ${bigEndian(data ?? new Uint8Array(0))}` })
    }
    // As nft lists it: (x & mask) ^ xor is (x & (mask | set) ^ flipped) | set, of which the parts without effect are left out.
    const set = xor.map((byte, index) => byte & ~(mask[index] ?? 0))
    const flipped = xor.map((byte, index) => byte & (mask[index] ?? 0))
    const kept = mask.map((byte, index) => byte | (set[index] ?? 0))
    const and = kept.every((byte) => byte === 0xff) ? '' : ` & ${print(kept)}`
    const flip = isZero(flipped) ? '' : ` ^ ${print(flipped)}`
    const or = isZero(set) ? '' : ` | ${print(set)}`
    return this.#load(to, { ...held, text: `${held.text}${and}${flip}${or}` })
  }

  #lookup({ set: name, from, to, flags = 0, elements }: NfExpressionOf<'lookup'>): string | undefined {
    const set = elements?.set ?? this.#findSet(name)
    const key = this.#key(from, set)
    const content = elements === undefined ? `@${name}` : `{ ${printElements(elements).join(', ')} }`
    if (to === undefined) return `${key} ${flags === 0 ? '' : '!= '}${content}`
    if (to === 'verdict') return `${key} vmap ${content}`
    const field = typeof set?.data === 'object' && set.data.length === 1 ? set.data[0] : undefined
    return this.#load(to, {
      text: `${key} map ${content}`,
      isMapped: true,
      ...(field === undefined ? {} : { field }),
    })
  }

  #compare(expression: NfExpressionOf<'cmp' | 'range'>): string {
    const [held] = this.#read(expression.from, 1)
    const { text = `[register ${expression.from}]`, field, prefixOf } = held ?? {}
    const print = (value: Uint8Array): string => {
      if (prefixOf !== undefined) return printNetwork(value, prefixOf)
      if (field !== undefined) return printField(field, value)
      if (text.startsWith('fib ') && text.endsWith(' type'))
        return addressTypes[value[0] ?? 0] ?? printBytes(value)
      return printBytes(value)
    }
    if (expression.kind === 'range') {
      const sign = expression.op === '!=' ? '!= ' : ''
      return `${text} ${sign}${print(expression.min)}-${print(expression.max)}`
    }
    const bits = printBits(text)
    if (bits !== undefined && expression.op === '!=' && expression.value.every((byte) => byte === 0))
      return bits
    return `${text} ${expression.op === '==' ? '' : `${expression.op} `}${print(expression.value)}`
  }

  #immediate({ to, data }: NfExpressionOf<'immediate'>): string | undefined {
    if ('verdict' in data) return printVerdict(data.verdict)
    const { value } = data
    return this.#load(to, { text: printBytes(value), words: Math.ceil(value.length / 4), value })
  }

  #translate(expression: NfExpressionOf<'nat' | 'masq'>): string {
    const { flags = 0, portMin, portMax } = expression
    const names = (
      [
        ['random', 4],
        ['persistent', 8],
        ['fully-random', 16],
      ] as const
    ).filter(([, bit]) => (flags & bit) !== 0)
    const end = names.length === 0 ? '' : ` ${names.map(([name]) => name).join(',')}`
    const range = (min: NfRegister, max: NfRegister | undefined, field: NfField): string =>
      max === undefined ? this.#text(min, field) : `${this.#text(min, field)}-${this.#text(max, field)}`
    const ports = portMin === undefined ? '' : `:${range(portMin, portMax, 'inet_service')}`
    if (expression.kind === 'masq') return `masquerade${ports === '' ? '' : ` to ${ports}`}${end}`
    const { type, family, addressMin, addressMax } = expression
    if (addressMin === undefined) return `${type} to ${ports}${end}`
    const [address] = this.#read(addressMin, 1)
    if (address?.isMapped === true)
      return `${type} ${family === 'ipv4' ? 'ip' : 'ip6'} to ${address.text}${end}`
    const text = range(addressMin, addressMax, family === 'ipv4' ? 'ipv4_addr' : 'ipv6_addr')
    return `${type} to ${ports !== '' && family === 'ipv6' ? `[${text}]` : text}${ports}${end}`
  }

  #dynset({ set: name, op, key, data, timeoutMs, expression }: NfExpressionOf<'dynset'>): string {
    const set = this.#findSet(name)
    const time = timeoutMs === undefined ? '' : ` timeout ${printTime(timeoutMs)}`
    const nested = expression === undefined ? '' : ` ${expression.kind}`
    const parts = typeof set?.data === 'object' ? set.data.length : undefined
    const value =
      data === undefined
        ? ''
        : ` : ${this.#read(data, parts)
            .map(({ text }) => text)
            .join(' . ')}`
    return `${op} @${name} { ${this.#key(key, set)}${time}${nested}${value} }`
  }
}

function isZero(bytes: Uint8Array): boolean {
  return bytes.every((byte) => byte === 0)
}

/** A test of bits, `ct state & 0x06000000` (host order), as nft prints it: `ct state established,related`. undefined: not such a test. */
function printBits(text: string): string | undefined {
  const [name = '', bits = ''] = text.split(' & ')
  // Host order.
  const bytes = Buffer.from(bits.slice(2), 'hex')
  const named = (ctBits[name] ?? []).filter(([, bit]) => ((bytes[0] ?? 0) & bit) !== 0)
  return named.length === 0 ? undefined : `${name} ${named.map(([bit]) => bit).join(',')}`
}

/** Expressions that use no register. */
function printStatement(expression: NfExpression): string {
  switch (expression.kind) {
    case 'counter':
      return 'counter'
    case 'limit': {
      const { rate, perSeconds, burst = 5, type = 0, flags = 0 } = expression
      const unit = timeUnits.get(perSeconds) ?? `${perSeconds} seconds`
      return `limit rate ${flags & 1 ? 'over ' : ''}${rate}${type === 1 ? ' bytes' : ''}/${unit} burst ${burst} ${type === 1 ? 'bytes' : 'packets'}`
    }
    case 'objref':
      return expression.name === undefined
        ? `[objref ${expression.set ?? ''}]`
        : `counter name ${quote(expression.name)}`
    case 'match':
    case 'target':
      return `[xt ${expression.kind} ${quote(expression.name)}]`
    default:
      return `[${expression.kind === 'other' ? expression.name : expression.kind}]`
  }
}

const timeUnits: ReadonlyMap<number, string> = new Map([
  [1, 'second'],
  [60, 'minute'],
  [3600, 'hour'],
  [86_400, 'day'],
  [604_800, 'week'],
])

/** Names of the codes of a reject: icmp, icmpv6, icmpx (NFT_REJECT_ICMPX_*). */
const rejectCodes: Readonly<Record<string, Readonly<Record<number, string>>>> = {
  icmp: {
    0: 'net-unreachable',
    1: 'host-unreachable',
    2: 'prot-unreachable',
    3: 'port-unreachable',
    9: 'net-prohibited',
    10: 'host-prohibited',
    13: 'admin-prohibited',
  },
  icmpv6: { 0: 'no-route', 1: 'admin-prohibited', 3: 'addr-unreachable', 4: 'port-unreachable' },
  icmpx: { 0: 'no-route', 1: 'port-unreachable', 2: 'host-unreachable', 3: 'admin-prohibited' },
}

function printReject({ type, code = 0 }: NfExpressionOf<'reject'>, family: IpFamily): string {
  if (type === 'tcp-reset') return 'reject with tcp reset'
  const kind = type === 'icmp' && family === 'ipv6' ? 'icmpv6' : String(type)
  return `reject with ${kind} ${rejectCodes[kind]?.[code] ?? code}`
}
