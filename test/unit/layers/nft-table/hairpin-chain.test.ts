// The chain that marks packets whose source is their destination, as the kernel walks it.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { hostPrefixLength, type NfExpression } from '../../../../src/kernel/index.js'
import { hairpinChain } from '../../../../src/layers/nft-table/compile/hairpin-chain.js'
import { makeNftSettings } from '../../../support/nft-table.js'

type Bytes = Uint8Array

/** Whether a rule that compares one digit lets the packet go on: the masked addresses are an element. */
function isEqualThere(expressions: readonly NfExpression[], source: Bytes, destination: Bytes): boolean {
  const masks = expressions.flatMap((each) =>
    each.kind === 'bitwise' ? [each.mask ?? new Uint8Array(0)] : [],
  )
  const key = [source, destination].flatMap((address, side) =>
    [...address].map((byte, index) => byte & (masks[side]?.[index] ?? 0)),
  )
  const lookup = expressions.find((each) => each.kind === 'lookup')
  assert.equal(lookup?.flags, 1)
  const { elements } = lookup
  assert.ok(elements)
  return Array.from({ length: elements.length }, (_, index) => Buffer.from(elements.key(index))).some(
    (each) => each.equals(Buffer.from(key)),
  )
}

describe('the chain hairpin-marking', () => {
  for (const family of ['ipv4', 'ipv6'] as const)
    it(`${family}: marks a packet if its source is its destination, and returns at the one digit that differs`, () => {
      const rules = hairpinChain(makeNftSettings(family, { semantics: 'iptables' })).rules
      const compared = rules.slice(0, -1)
      const length = hostPrefixLength(family) / 8
      assert.equal(compared.length, 2 * length)
      const address = Uint8Array.from({ length }, (_, index) => (37 * index + 10) % 256)
      const returns = (source: Bytes, destination: Bytes): number =>
        compared.filter(({ expressions }) => !isEqualThere(expressions, source, destination)).length
      assert.equal(returns(address, address), 0)
      for (let place = 0; place < length; place++)
        for (let difference = 1; difference < 256; difference++) {
          const other = address.with(place, (address[place] ?? 0) ^ difference)
          const digits = Number(difference > 15) + Number(difference % 16 !== 0)
          assert.equal(returns(address, other), digits)
          assert.equal(returns(other, other), 0)
        }
    })
})
