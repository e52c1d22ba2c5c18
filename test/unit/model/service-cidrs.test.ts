import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { formatCidr, type IpFamily } from '../../../src/address.js'
import { trackFamily } from '../../support/tracked-family.js'
import type { ObjectEvent } from '../../../src/source/index.js'
import { cidr } from '../../support/routes.js'

const set = (name: string, ...cidrs: string[]): ObjectEvent => ({
  type: 'set',
  object: { kind: 'ServiceCIDR', namespace: '', name, cidrs: cidrs.map(cidr) },
})
const remove = (name: string): ObjectEvent => ({
  type: 'delete',
  kind: 'ServiceCIDR',
  key: { namespace: '', name },
})
const listed: ObjectEvent = { type: 'service-cidrs-listed' }

const cases: readonly {
  readonly name: string
  readonly events: readonly ObjectEvent[]
  readonly ipv4: readonly string[] | undefined
  readonly ipv6: readonly string[] | undefined
}[] = [
  {
    name: 'are not known before all have been read',
    events: [set('a', '10.96.0.0/16')],
    ipv4: undefined,
    ipv6: undefined,
  },
  {
    name: 'are not known when only other objects have been read',
    events: [{ type: 'synced' }],
    ipv4: undefined,
    ipv6: undefined,
  },
  {
    name: 'are known with the other objects of a folder',
    events: [{ type: 'synced', withServiceCidrs: true }],
    ipv4: [],
    ipv6: [],
  },
  { name: 'are none where there are none', events: [listed], ipv4: [], ipv6: [] },
  {
    name: 'belong to their family, each once',
    events: [
      set('b', '10.97.0.0/16', 'fd00:96::/112'),
      set('a', '10.96.0.0/16'),
      set('c', '10.96.0.0/16'),
      listed,
    ],
    ipv4: ['10.96.0.0/16', '10.97.0.0/16'],
    ipv6: ['fd00:96::/112'],
  },
  {
    name: 'follow changes and deletions',
    events: [
      set('a', '10.96.0.0/16'),
      set('b', '10.97.0.0/16'),
      listed,
      set('a', '10.98.0.0/16'),
      remove('b'),
    ],
    ipv4: ['10.98.0.0/16'],
    ipv6: [],
  },
]

function networksOf(family: IpFamily, events: readonly ObjectEvent[]): readonly string[] | undefined {
  const tracker = trackFamily(family)
  for (const event of events) tracker.apply(event)
  return tracker.serviceCidrs?.map(formatCidr)
}

describe('the networks of ServiceCIDRs', () => {
  for (const { name, events, ipv4, ipv6 } of cases) {
    it(name, () => {
      assert.deepEqual([networksOf('ipv4', events), networksOf('ipv6', events)], [ipv4, ipv6])
    })
  }

  it('are another array only after events about ServiceCIDRs', () => {
    const tracker = trackFamily('ipv4')
    const changes = [listed, set('a', '10.96.0.0/16'), remove('a'), remove('a'), { type: 'synced' } as const]
    const isOther = (event: ObjectEvent): boolean => {
      const before = tracker.serviceCidrs
      tracker.apply(event)
      return tracker.serviceCidrs !== before
    }
    assert.deepEqual(changes.map(isOther), [true, true, true, false, false])
  })
})
