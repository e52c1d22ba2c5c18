import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import * as fc from 'fast-check'
import { IpvsBatch, type IpvsOp, type RealServer, RealServerList } from '../../../../src/kernel/index.js'
import { openModelKernel } from '../../../model/index.js'
import { advance, equalStates, planServer, type ServerState } from '../../../../src/layers/ipvs/testing.js'
import { PackedDump } from '../../../../src/layers/ipvs/index.js'
import { ip } from '../../../support/pipeline-lab.js'

const key = { family: 'ipv4', protocol: 'tcp', address: ip('10.96.0.1'), port: 80 } as const

const realServer = fc
  .record({
    address: fc.constantFrom(...['10.0.0.9', '10.0.0.10', '9.255.0.1', '200.1.1.1'].map(ip)),
    port: fc.constantFrom(1, 255, 256, 65535),
    weight: fc.nat(2),
  })
  .map(({ address, port, weight }) => ({
    key: { address, port },
    settings: { weight, forwarding: 'masquerade' as const, upperThreshold: 0, lowerThreshold: 0 },
  }))

interface Unordered extends Pick<ServerState, 'settings'> {
  readonly reals: readonly RealServer[]
}

const unordered: fc.Arbitrary<Unordered> = fc.record({
  settings: fc.record({
    scheduler: fc.constantFrom('rr', 'lc', 'mh'),
    flags: fc.constantFrom(0, 1, 0x10),
    timeoutSeconds: fc.nat(10800),
    netmaskLength: fc.constantFrom(24, 32),
  }),
  reals: fc.uniqueArray(realServer, {
    selector: (real) => `${real.key.address} ${real.key.port}`,
    maxLength: 8,
  }),
})
const stateOf = ({ settings, reals }: Unordered): ServerState => ({
  settings,
  realServers: RealServerList.of(reals),
})
const state = unordered.map(stateOf)
const maybe = fc.option(state, { nil: undefined })

function diff(a: ServerState | undefined, b: ServerState | undefined): IpvsBatch {
  const batch = new IpvsBatch()
  assert.equal(planServer(batch, key, a, b), batch.length)
  return batch
}

function opsOf(batch: IpvsBatch): readonly IpvsOp[] {
  return Array.from({ length: batch.length }, (_, index) => batch.at(index)).filter((op) => op !== undefined)
}

describe('properties of planServer', () => {
  it('apply(diff(a, b)) = b on the kernel, without a refusal, and in the ledger', async () => {
    await fc.assert(
      fc.asyncProperty(maybe, maybe, async (a, b) => {
        const { ipvs } = openModelKernel()
        await ipvs.apply(diff(undefined, a))
        const batch = diff(a, b)
        assert.deepEqual((await ipvs.apply(batch)).failures, [])
        const dump = new PackedDump(await ipvs.dump('ipv4'))
        const reached = dump.length === 0 ? undefined : dump.state(0)
        assert.ok(isSame(reached, b))
        assert.ok(isSame(opsOf(batch).reduce(advance, a), b))
      }),
    )
  })

  it('is empty exactly when the states are equal', () => {
    fc.assert(fc.property(maybe, maybe, (a, b) => assert.equal(diff(a, b).length === 0, isSame(a, b))))
  })

  it('adds real servers first, then changes others, then removes', () => {
    const turns = ['set-virtual-server', 'add-real-server', 'set-real-server', 'remove-real-server']
    fc.assert(
      fc.property(state, state, (a, b) => {
        const ops = opsOf(diff(a, b)).map(({ op }) => turns.indexOf(op))
        assert.deepEqual(
          ops,
          ops.toSorted((x, y) => x - y),
        )
      }),
    )
  })

  it('a dump equals exactly its states, for any order of real servers', async () => {
    await fc.assert(
      fc.asyncProperty(unordered, fc.option(state), async (held, other) => {
        const { ipvs } = openModelKernel()
        await ipvs.apply(diff(undefined, stateOf(held)))
        const dump = new PackedDump(await ipvs.dump('ipv4'))
        const asked = other ?? stateOf({ ...held, reals: held.reals.toReversed() })
        assert.equal(dump.equals(0, asked), other === null || equalStates(stateOf(held), asked))
      }),
    )
  })
})

function isSame(a: ServerState | undefined, b: ServerState | undefined): boolean {
  return a === undefined || b === undefined ? a === b : equalStates(a, b)
}
