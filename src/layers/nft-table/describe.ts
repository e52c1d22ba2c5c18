// The desired kernel state of a route for people, as commands of nft.
import type { IpFamily } from '../../address.js'
import { boundedLines } from '../../engine/index.js'
import { NfElements, packFields, printTransaction } from '../../kernel/index.js'
import type { DesiredOwnChains, DesiredRoute } from './compile/desired.js'
import { type DesiredElement, elementsOf } from './compile/elements.js'
import { ownComment, ownLists, ownRules } from './compile/own-chains.js'
import { splitPacked } from './tables/frontend-state.js'
import { Packer } from './tables/packed.js'

/** A line per element of the route: `add element ip kube-proxy cluster-ips { 10.96.0.1 }`. No line for what all routes share. */
export function describeDesired(desired: DesiredRoute, family: IpFamily): readonly string[] {
  return boundedLines(linesOf(desired, family))
}

function* linesOf(desired: DesiredRoute, family: IpFamily): Generator<string> {
  for (const element of elementsOf(desired, family)) yield `add ${describeElement(element)}`
  if (desired.own !== undefined) yield* ownLines(desired.own, family)
}

/** The own chains with their last rules, which name all endpoints. The other rules have slots, which the routes do not decide. */
function* ownLines(own: DesiredOwnChains, family: IpFamily): Generator<string> {
  const packer = new Packer(family)
  for (const list of ownLists) {
    const endpoints = splitPacked(packer.endpoints(own[list]), packer.endpointBytes)
    const { protocol, affinitySeconds } = own
    const slotted = endpoints.map((endpoint) => ({ endpoint, slot: 0 }))
    const place = { family, id: own.id, list, comment: ownComment(own.name) }
    const rule = ownRules(place, { protocol, affinitySeconds, endpoints: slotted }).at(-1)
    if (endpoints.length === 0 || rule === undefined) continue
    const { table, chain } = rule
    yield* printTransaction([
      { op: 'add-chain', chain: { family, table, chain } },
      { op: 'add-rule', rule },
    ])
      .trimEnd()
      .split('\n')
  }
}

/** `element ip kube-proxy cluster-ips { 10.96.0.1 }`. */
export function describeElement(element: DesiredElement): string {
  return printTransaction([{ op: 'add-elements', elements: packedElement(element) }])
    .trimEnd()
    .replace(/^add /u, '')
}

/** The element for an operation. */
export function packedElement({ set, key, data, chain }: DesiredElement): NfElements {
  if (chain !== undefined)
    return new NfElements(set).add(packFields(set.key, key), { verdict: { code: 'goto', chain } })
  const value = data === undefined ? {} : { data: packFields(valueFields(set), data) }
  return new NfElements(set).add(packFields(set.key, key), value)
}

function valueFields({ data }: DesiredElement['set']) {
  return typeof data === 'object' ? data : []
}
