import type { Explanation, PacketStep } from '../inspect/index.js'
import { type Cell, columns, pairs, printable } from '../words.js'
import { type Command, CommandError } from './command.js'
import type { Known } from './shapes.js'

type Explained = Known<Explanation>

export const explainCommand: Command = {
  name: 'explain',
  help: 'what happens to a connection to a Service, and why',
  description:
    "Prints what the node does with the first packet of a new connection: the Service that has the address and port, the endpoints that may get the connection, those that may not, whether the source address is kept, and the kernel objects that decide. It follows the request through the rules of other programs at the hooks prerouting, input, forward, output and postrouting. They may drop it, or keep it from the rules of Services: they leave it untracked (NOTRACK), accept it earlier in a chain of table nat at prerouting or output, or give it another destination, where it is not followed. A rule that cannot be evaluated may do so. It does not know rules of other programs that translate the source, or that come before those that masquerade. In JSON firewall.state is passes, drops, bypasses, may-drop, may-bypass, not-asked or unknown, and firewall.rules has a sentence per rule. It asks the kernel for the route to each endpoint, with the source of the packet and the interface by which it comes in, on which rp_filter and forwarding depend; without --interface, this is the interface by which the node reaches the client. Marks of other programs are not known to these questions. In ipvs mode it also names rules that change the packet's mark, by which Services of policy Local are recognized: in JSON the field mark says whether the packet keeps the mark; may-lose means that the endpoints of this node may be the only candidates. Then it asks the kernel whether it has these objects.",
  arguments: [
    { name: 'CLIENT', isRequired: true, help: 'an IP address, or node for a process of this node' },
    { name: 'VIP:PORT[/PROTOCOL]', isRequired: true, help: 'the destination; tcp if no protocol is written' },
    { name: 'ARROW', isRequired: false, help: "the destination, if the second argument is '->'" },
  ],
  options: [
    {
      name: 'interface',
      metavar: 'NAME',
      help: 'the interface by which the packet comes in: for its route, and where pods are recognized by it',
    },
  ],
  examples: [
    { line: 'explain 10.244.1.10 10.96.0.1:443', help: 'a pod connects to a cluster IP' },
    { line: 'explain node 10.96.0.10:53/udp', help: 'a process of this node asks the DNS of the cluster' },
  ],
  finds: 'the kernel does not agree',
  run: async ({ arguments: written, options, ask }) => {
    const [client = '', ...rest] = written
    const destination = destinationOf(rest)
    const inInterface = options['interface']
    const { value, known } = await ask('explain', {
      client,
      destination,
      ...(typeof inInterface === 'string' ? { interface: inInterface } : {}),
    })
    const state = known.kernel?.state
    const isWrong = state === 'differs' || state === 'unknown'
    return { value, table: () => table(known), exitCode: isWrong ? 1 : 0 }
  },
}

function destinationOf([first = '', second]: readonly string[]): string {
  if (first === '->' || first === '→') {
    if (second !== undefined) return second
    throw new CommandError(2, `no destination after ${first}: write CLIENT -> VIP:PORT`)
  }
  if (second === undefined) return first
  throw new CommandError(2, `"${second}" is one argument too many: write CLIENT VIP:PORT[/PROTOCOL]`)
}

const verdicts: Readonly<Record<Explanation['verdict'], string>> = {
  serve: 'goes to an endpoint',
  refuse: 'is refused',
  reset: 'is accepted, and reset',
  drop: 'is dropped',
  untouched: 'is not treated: no Service concerns it',
  'health-check': 'is answered by the agent',
}

const agreements: Readonly<Record<Explanation['kernel']['state'], string>> = {
  agrees: 'kernel agrees',
  differs: 'kernel does not agree',
  'not-asked': 'kernel was not asked',
  unknown: 'kernel did not answer',
}

const marks: Readonly<Record<Explanation['mark']['state'], string>> = {
  keeps: 'the packet keeps the mark of the Service',
  'may-lose': 'the packet may lose the mark of the Service',
  loses: 'the packet does not have the mark of the Service',
  'not-asked': '',
  unknown: 'was not read',
}

const firewalls: Readonly<Record<Explanation['firewall']['state'], string>> = {
  passes: "no rule of the node's own firewall drops it",
  drops: "the node's own firewall drops it",
  bypasses: 'rules of other programs keep it from rules of Services',
  'may-drop': "the node's own firewall may drop it",
  'may-bypass': 'rules of other programs may keep it from rules of Services',
  'not-asked': 'was not asked',
  unknown: 'was not read',
}

const routes: Readonly<Record<Explanation['route']['state'], string>> = {
  routed: 'the kernel has a route',
  lost: 'the kernel does not route it',
  'may-be-lost': 'the kernel does not route it to every endpoint',
  'not-asked': 'was not asked',
  unknown: 'is not known',
}

/** The sentence for a word; the word itself, if an agent of another version has more words than this command. */
function sentenceOf(sentences: Readonly<Record<string, string>>, word: string | undefined): Cell {
  return word === undefined || !Object.hasOwn(sentences, word) ? word : sentences[word]
}

/** With the interface that is only assumed, and the reason of `unknown`, which is no step. */
function routeText({ state, inInterface, reasons = [] }: NonNullable<Explained['route']>): Cell {
  const assumed =
    inInterface?.isAssumed === true ? `, if the packet comes in by ${inInterface.name ?? '-'}` : ''
  const reason = state === 'unknown' ? `: ${reasons.join('; ')}` : ''
  const sentence = sentenceOf(routes, state)
  return sentence === undefined ? undefined : `${sentence}${assumed}${reason}`
}

function clientText({ address = '', text }: NonNullable<Explained['client']>): Cell {
  return address === '' ? text : `${address} (${text ?? '-'})`
}

function serviceText(service: Explained['service']): string {
  return service === undefined ? 'none' : `${service.name ?? '-'} (${service.frontend ?? '-'})`
}

function table(explanation: Explained): string {
  const { client = {}, destination, mode, verdict, service, endpoints = [], steps = [] } = explanation
  const { firewall, mark, route = {}, objects = [], kernel } = explanation
  const isKeptAway = verdict === 'untouched' && firewall?.state === 'bypasses'
  const head = pairs([
    ['Client', clientText(client)],
    ['Destination', destination],
    ['Service', serviceText(service)],
    ['Mode', mode],
    [
      'Verdict',
      isKeptAway ? 'is not treated: rules of Services do not see it' : sentenceOf(verdicts, verdict),
    ],
    ['Firewall', sentenceOf(firewalls, firewall?.state)],
    ['Route', routeText(route)],
    ...(mark?.state === 'not-asked' ? [] : [['Mark', sentenceOf(marks, mark?.state)] as const]),
    ['Kernel', sentenceOf(agreements, kernel?.state)],
  ])
  const rows = endpoints.map(endpointRow)
  return [
    head,
    list('Steps', steps.map(stepText)),
    rows.length === 0 ? '' : `\n${columns(['ENDPOINT', 'NODE', 'STATE', 'SEES', 'REASON'], rows)}`,
    list('Differences', kernel?.differences ?? []),
    list('Kernel objects', objects),
  ].join('')
}

type Endpoint = NonNullable<Explained['endpoints']>[number]

function endpointRow({
  endpoint,
  node,
  isCandidate,
  isMasqueraded,
  rule,
  reason,
}: Endpoint): readonly Cell[] {
  const why = reason === undefined ? undefined : `${reason} (${rule ?? '-'})`
  if (isCandidate !== true)
    return [endpoint, node, isCandidate === false ? 'dropped' : undefined, undefined, why]
  const seen = isMasqueraded === undefined ? undefined : isMasqueraded ? 'this node' : 'the client'
  return [endpoint, node, 'candidate', seen, why]
}

function stepText({ rule, text = '-' }: Known<PacketStep>): string {
  return rule === undefined ? text : `${text} (${rule})`
}

function list(heading: string, lines: readonly string[]): string {
  if (lines.length === 0) return ''
  return `\n${heading}:\n${lines.map((line) => `  ${printable(line)}\n`).join('')}`
}
