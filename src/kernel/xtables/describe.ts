// Rules of x_tables in the notation of iptables-save.
import { formatEndpoint, type IpFamily } from '../../address.js'
import { hasLateComment, XtState, type XtRule, type XtTableName, type XtTarget } from './xtables.js'

/** In the order of iptables-save. */
const stateNames = [
  [XtState.invalid, 'INVALID'],
  [XtState.new, 'NEW'],
  [XtState.related, 'RELATED'],
  [XtState.established, 'ESTABLISHED'],
  [XtState.untracked, 'UNTRACKED'],
  [XtState.dnat, 'DNAT'],
] as const

const wholeMask = { ipv4: '255.255.255.255', ipv6: 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff' } as const

/** The bpf program of native/xtables/match_encoder.cc that compares source and destination. */
const sourceDestinationProgram = {
  ipv4: comparison(12, 16, 1),
  ipv6: comparison(8, 24, 4),
} as const

function comparison(source: number, destination: number, words: number): string {
  const statements: string[] = []
  for (let word = 0; word < words; word++) {
    const behind = (words - 1 - word) * 4 + 1
    statements.push(`32 0 0 ${source + 4 * word}`, '7 0 0 0', `32 0 0 ${destination + 4 * word}`)
    statements.push(`29 0 ${behind} 0`)
  }
  statements.push('6 0 0 4294967295', '6 0 0 0')
  return `"${[statements.length, ...statements].join(',')}"`
}

function not(isInverted: boolean | undefined): string {
  return isInverted === true ? '! ' : ''
}

function hex(value: number): string {
  return `0x${value.toString(16)}`
}

/** iptables-save does not print a mask of all bits. */
function markText(value: number, mask: number): string {
  return mask === 0xffffffff ? hex(value) : `${hex(value)}/${hex(mask)}`
}

function portsText([from, to]: readonly [number, number]): string {
  return from === to ? `${from}` : `${from}:${to}`
}

function quoted(text: string): string {
  return /^[\w-]+$/.test(text) ? text : `"${text.replaceAll(/["\\']/g, String.raw`\$&`)}"`
}

function* headerWords(rule: Omit<XtRule, 'target'>): Generator<string> {
  const { source, destination, inInterface, outInterface, protocol } = rule
  // iptables-save does not print a prefix of length 0.
  if (source !== undefined && (source.prefixLength > 0 || source.isInverted === true))
    yield `${not(source.isInverted)}-s ${source.address}/${source.prefixLength}`
  if (destination !== undefined && (destination.prefixLength > 0 || destination.isInverted === true))
    yield `${not(destination.isInverted)}-d ${destination.address}/${destination.prefixLength}`
  if (inInterface !== undefined) yield `${not(inInterface.isInverted)}-i ${inInterface.name}`
  if (outInterface !== undefined) yield `${not(outInterface.isInverted)}-o ${outInterface.name}`
  if (protocol !== undefined) yield `-p ${protocol}`
}

function* portWords({ protocol, sourcePorts, destinationPorts }: Omit<XtRule, 'target'>): Generator<string> {
  if (sourcePorts !== undefined || destinationPorts !== undefined) yield `-m ${protocol}`
  if (sourcePorts !== undefined) yield `--sport ${portsText(sourcePorts)}`
  if (destinationPorts !== undefined) yield `--dport ${portsText(destinationPorts)}`
}

/** In the order of native/xtables/rule_encoder.cc: cheap matches first. */
function* matchWords(rule: Omit<XtRule, 'target'>, family: IpFamily, isLate: boolean): Generator<string> {
  const { mark, addressType, state, set, probability, recent } = rule
  const comment = rule.comment === undefined ? [] : [`-m comment --comment ${quoted(rule.comment)}`]
  if (!isLate) yield* comment
  yield* portWords(rule)
  if (mark !== undefined) yield `-m mark ${not(mark.isInverted)}--mark ${markText(mark.value, mark.mask)}`
  if (addressType !== undefined) {
    const side = addressType.of === 'source' ? 'src' : 'dst'
    yield `-m addrtype ${not(addressType.isInverted)}--${side}-type LOCAL`
  }
  if (state !== undefined) {
    const names = stateNames.filter(([bit]) => (state.bits & bit) !== 0).map(([, name]) => name)
    yield `-m conntrack ${not(state.isInverted)}--ctstate ${names.join(',')}`
  }
  if (rule.isUnconfirmed === true) yield '-m conntrack ! --ctstatus CONFIRMED'
  if (rule.isSourceDestination === true) yield `-m bpf --bytecode ${sourceDestinationProgram[family]}`
  if (set !== undefined)
    yield `-m set ${not(set.isInverted)}--match-set ${set.name} ${set.directions.join(',')}`
  if (probability !== undefined)
    yield `-m statistic --mode random --probability ${(Math.round(probability * 2 ** 31) / 2 ** 31).toFixed(11)}`
  if (recent !== undefined) {
    const { action, seconds } = recent
    const check = seconds === undefined ? '--rcheck' : `--rcheck --seconds ${seconds} --reap`
    const words = action === 'set' ? '--set' : check
    yield `-m recent ${words} --name ${recent.list} --mask ${wholeMask[family]} --rsource`
  }
  if (isLate) yield* comment
}

function targetWords(target: XtTarget, family: IpFamily): string {
  switch (target.kind) {
    case 'jump':
      return `-j ${target.chain}`
    case 'goto':
      return `-g ${target.chain}`
    case 'accept':
    case 'drop':
    case 'return':
      return `-j ${target.kind.toUpperCase()}`
    case 'mark':
      return `-j MARK --set-xmark ${hex(target.value)}/${hex(target.mask)}`
    case 'dnat':
      return `-j DNAT --to-destination ${formatEndpoint(target.address, target.port)}`
    case 'masquerade':
      return `-j MASQUERADE${target.isRandomFully ? ' --random-fully' : ''}`
    case 'map-mark':
      return `-j SET --map-set ${target.set.name} ${target.set.directions.join(',')} --map-mark`
    case 'reject':
      return `-j REJECT --reject-with ${family === 'ipv4' ? 'icmp' : 'icmp6'}-port-unreachable`
  }
}

/** `-d 10.96.0.10/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-X`: the rule as iptables-save prints it, without the chain. */
export function describeXtRule(rule: XtRule, family: IpFamily): string {
  const matches = matchWords(rule, family, hasLateComment(rule.target))
  return [...headerWords(rule), ...matches, targetWords(rule.target, family)].join(' ')
}

/** A rule with a target that Viaduct does not write, by the name of the target alone. */
export function describeOtherXtRule(
  matches: Omit<XtRule, 'target'>,
  target: string,
  family: IpFamily,
): string {
  return [...headerWords(matches), ...matchWords(matches, family, false), `-j ${target}`].join(' ')
}

/** `ipv4 nat`. */
export function describeXtTable(family: IpFamily, table: XtTableName): string {
  return `${family} ${table}`
}
