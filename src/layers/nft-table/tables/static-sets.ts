// Sets with a few elements that settings decide: they are written as a whole.
import { type Cidr, type IpAddress, type IpFamily, writeAddress } from '../../../address.js'
import { NfElements, type NfOp, type NfSet } from '../../../kernel/index.js'
import { type NftSchema, setNamed } from '../compile/schema.js'

/** A set whose elements are replaced together. */
export class StaticSet {
  readonly set: NfSet
  /** undefined: unknown. The kernel's elements stay. */
  #wanted: { readonly elements: NfElements; readonly content: string } | undefined
  /** Content that the kernel has; undefined: unknown, or no such set. */
  #acknowledged: string | undefined

  constructor(set: NfSet) {
    this.set = set
  }

  /** The next write brings these elements to the kernel. */
  want(elements: NfElements): void {
    this.#wanted = { elements, content: contentOf(elements) }
  }

  /** Takes in the kernel's elements; undefined: the kernel has no such set. False: they differ from the acknowledged ones. */
  read(elements: NfElements | undefined): boolean {
    const former = this.#acknowledged
    this.#acknowledged = elements && contentOf(elements)
    return former === undefined || former === this.#acknowledged
  }

  /** A sample of the elements that are neither acknowledged nor wanted; undefined: there are none. */
  foreignIn(elements: NfElements | undefined): string | undefined {
    if (elements === undefined || this.#acknowledged === undefined) return undefined
    const known = new Set(
      [this.#acknowledged, this.#wanted?.content ?? ''].flatMap((content) => content.split(',')),
    )
    return contentOf(elements)
      .split(',')
      .find((element) => !known.has(element))
  }

  /** The operations that bring the elements to the set. `isNew`: the transaction makes the set. */
  plan({ isNew }: { readonly isNew: boolean }): readonly NfOp[] {
    if (this.#wanted === undefined) return []
    const { elements, content } = this.#wanted
    if ((isNew ? '' : this.#acknowledged) === content) return []
    const flush: readonly NfOp[] = isNew ? [] : [{ op: 'flush-set', set: this.set }]
    return content === '' ? flush : [...flush, { op: 'add-elements', elements }]
  }

  confirm(): void {
    this.#acknowledged = this.#wanted?.content ?? this.#acknowledged ?? ''
  }
}

/** Equal for equal elements in any order. */
function contentOf(elements: NfElements): string {
  const keys: string[] = []
  for (let index = 0; index < elements.length; index++) {
    const key = Buffer.from(elements.key(index)).toString('hex')
    const isEnd = elements.isIntervalEnd(index)
    // nft begins a set of intervals with the end of an interval that has no start.
    if (!isEnd || !/^0+$/.test(key)) keys.push(`${key}${isEnd ? ' end' : ''}`)
  }
  return keys.toSorted().join()
}

export function addressElements(set: NfSet, addresses: readonly IpAddress[]): NfElements {
  const elements = new NfElements(set)
  for (const address of new Set(addresses)) elements.add(bytesOf(address, elements.layout.keyBytes))
  return elements
}

/** The networks as intervals of addresses. Networks that touch or overlap are one interval, which the kernel requires. */
export function networkElements(set: NfSet, family: IpFamily, networks: readonly Cidr[]): NfElements {
  const elements = new NfElements(set)
  const { keyBytes } = elements.layout
  const ranges = networks
    .filter((network) => network.family === family)
    .map(({ address, prefixLength }) => {
      const start = BigInt(`0x${Buffer.from(bytesOf(address, keyBytes)).toString('hex')}`)
      return { start, end: start + (1n << BigInt(8 * keyBytes - prefixLength)) }
    })
    .toSorted((a, b) => (a.start < b.start ? -1 : 1))
  let until = 0n
  for (const [index, { start, end }] of ranges.entries()) {
    if (index === 0 || start > until) elements.add(numberBytes(start, keyBytes))
    until = end > until ? end : until
    const next = ranges[index + 1]
    if (next !== undefined && next.start <= until) continue
    // An interval that ends with the last address has no end.
    if (until < 1n << BigInt(8 * keyBytes))
      elements.add(numberBytes(until, keyBytes), { isIntervalEnd: true })
  }
  return elements
}

function bytesOf(address: IpAddress, length: number): Uint8Array {
  const bytes = new Uint8Array(16)
  writeAddress(address, bytes, 0)
  return bytes.subarray(0, length)
}

function numberBytes(value: bigint, length: number): Uint8Array {
  return Buffer.from(value.toString(16).padStart(2 * length, '0'), 'hex')
}

/** The set of this name that the table has, maybe while something needs it; undefined: the schema has no such set. */
export function occasionalSet({ table }: NftSchema, name: string): NfSet | undefined {
  return setNamed(table.family, name)
}
