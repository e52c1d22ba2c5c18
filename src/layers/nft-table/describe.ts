// The desired kernel state of a route for people, as commands of nft.
import type { IpFamily } from '../../address.js'
import { boundedLines } from '../../engine/index.js'
import { NfElements, packFields, printTransaction } from '../../kernel/index.js'
import type { DesiredRoute } from './compile/desired.js'
import { type DesiredElement, elementsOf } from './compile/elements.js'

/** A line per element of the route: `add element ip kube-proxy cluster-ips { 10.96.0.1 }`. No line for what all routes share. */
export function describeDesired(desired: DesiredRoute, family: IpFamily): readonly string[] {
  return boundedLines(linesOf(desired, family))
}

function* linesOf(desired: DesiredRoute, family: IpFamily): Generator<string> {
  for (const element of elementsOf(desired, family)) yield `add ${describeElement(element)}`
}

/** `element ip kube-proxy cluster-ips { 10.96.0.1 }`. */
export function describeElement(element: DesiredElement): string {
  return printTransaction([{ op: 'add-elements', elements: packedElement(element) }])
    .trimEnd()
    .replace(/^add /u, '')
}

/** The element for an operation. */
export function packedElement({ set, key, data }: DesiredElement): NfElements {
  const value = data === undefined ? {} : { data: packFields(valueFields(set), data) }
  return new NfElements(set).add(packFields(set.key, key), value)
}

function valueFields({ data }: DesiredElement['set']) {
  return typeof data === 'object' ? data : []
}
