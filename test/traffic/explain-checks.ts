// The checks of the traffic table as questions to `viaduct explain`, and its answers against the results that packets have.
import type { Packet, PacketDecision } from '../../src/inspect/testing.js'
import { ip } from '../support/routes.js'
import { type Check, describeCheck, describeExpectation, type Target } from './table/case.js'
import {
  addresses,
  elsewhere,
  inInterfaces,
  loopback,
  type Place,
  podGateway,
  secondNodeAddress,
} from './table/world.js'

/** The parts of an answer that packets can show. */
export type Answer = Pick<PacketDecision, 'verdict' | 'endpoints'>
export type Explain = (packet: Packet) => Promise<Answer>

/** Addresses with servers that no Service leads to. */
const ownServers: readonly string[] = [
  '127.0.0.1',
  ...[addresses.node, ...Object.values(elsewhere)].flatMap((pair) => Object.values(pair)),
]
/** Ports on which the servers of the node itself listen. */
const ownPorts: ReadonlySet<number> = new Set([80, 9376, 9377])

/** Checks of new connections. A stray segment belongs to none. */
export function isExplained(check: Check): boolean {
  return check.kind !== 'stray'
}

/** The difference between the answer of explain and the expected result of the check, one line; undefined: none. */
export async function explainProblem(check: Check, explain: Explain): Promise<string | undefined> {
  const problem = await problemOf(check, async (from, to) => await explain(packetOf(from, to)))
  return problem === undefined ? undefined : `${describeCheck(check)}: ${problem}`
}

async function problemOf(
  check: Check,
  decide: (from: Place, to: Target) => Promise<Answer>,
): Promise<string | undefined> {
  switch (check.kind) {
    case 'flow':
    case 'ask': {
      const answer = answerOf(await decide(check.from, check.to), check)
      const { expect } = check
      const expected =
        expect.kind === 'answer'
          ? expect.by.map((by) => (expect.sees === 'node' ? `${by} masqueraded` : by))
          : [expect.kind]
      return difference(expected, answer, describeExpectation(expect))
    }
    case 'affinity':
      for (const to of check.to) {
        const answer = candidates(await decide(check.from, to))
        // A client keeps its server; the others are still candidates for clients that come for the first time.
        if (!check.by.every((by) => answer.includes(by)))
          return `expected ${check.by.join(' or ')}; explain says ${answer.join(', ')}`
      }
      return undefined
    case 'expiry':
      return candidates(await decide(check.from, check.to)).length > 1 ? undefined : 'has no second server'
    case 'http': {
      const { verdict } = await decide(check.from, { ...check.to, protocol: 'TCP' })
      return verdict === 'health-check' ? undefined : `is answered by the agent; explain says ${verdict}`
    }
    case 'stray':
      return undefined
  }
}

function difference(
  expected: readonly string[],
  answer: readonly string[],
  text: string,
): string | undefined {
  return expected.toSorted().join() === answer.toSorted().join()
    ? undefined
    : `expected ${text}; explain says ${answer.join(', ')}`
}

function candidates({ endpoints }: Answer): readonly string[] {
  return endpoints.filter(({ isCandidate }) => isCandidate).map(({ endpoint }) => serverText(endpoint))
}

/** `[fd00::1]:80` as `fd00::1 80`. */
function serverText(endpoint: string): string {
  return endpoint.replace(/^\[?(.*?)\]?:(\d+)$/u, '$1 $2')
}

/** The decision in the words of an expectation. */
function answerOf(decision: Answer, { from, to, expect }: FlowLike): readonly string[] {
  switch (decision.verdict) {
    case 'serve':
      return decision.endpoints
        .filter(({ isCandidate }) => isCandidate)
        .map(({ endpoint, isMasqueraded }) => {
          // The node is its own source: the table has it as kept where nothing is masqueraded.
          const isSeenAsNode =
            isMasqueraded || (from === 'node' && expect.kind === 'answer' && expect.sees === 'node')
          return `${serverText(endpoint)}${isSeenAsNode ? ' masqueraded' : ''}`
        })
    case 'refuse':
      return ['refused']
    case 'drop':
      return ['dropped']
    case 'reset':
      return ['reset']
    case 'untouched':
    case 'health-check':
      return [withoutServices(to)]
  }
}

type FlowLike = Extract<Check, { readonly kind: 'flow' | 'ask' }>

/** The fate of a packet that no Service treats. */
function withoutServices({ address, port }: Target): string {
  if (ownServers.includes(address) && ownPorts.has(port)) return `${address} ${port}`
  const own = [addresses.node, secondNodeAddress, podGateway, loopback].flatMap((pair) => Object.values(pair))
  return own.includes(address) ? 'refused' : 'dropped'
}

function packetOf(from: Place, { protocol, address, port }: Target): Packet {
  const destination = ip(address)
  const family = address.includes(':') ? 'IPv6' : 'IPv4'
  return {
    client: from === 'node' ? 'node' : ip(addresses[from][family]),
    inInterface: inInterfaces[from],
    destination,
    port,
    protocol: ({ TCP: 'tcp', UDP: 'udp', SCTP: 'sctp' } as const)[protocol],
  }
}
