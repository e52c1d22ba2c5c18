import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import * as fc from 'fast-check'
import { formatEndpoint, type IpFamily } from '../../../src/address.js'
import { trackFamily, type TrackedFamily } from '../../support/tracked-family.js'
import type { ObjectEvent, ServicePortSpec, SliceEndpoint } from '../../../src/source/index.js'
import { endpoint, port, remove, service, set, slice } from '../../support/objects.js'

class Tracked {
  readonly problems: string[] = []
  readonly tracker: TrackedFamily

  constructor(family: IpFamily = 'ipv4') {
    this.tracker = trackFamily(family, ({ kind, name }, found) => {
      this.problems.push(...(found ?? []).map((problem) => `${kind} ${name}: ${problem}`))
    })
  }

  /** Dirty keys after these events. */
  after(...events: readonly ObjectEvent[]): readonly string[] {
    for (const event of events) this.tracker.apply(event)
    return [...this.tracker.take()].toSorted()
  }

  /** Endpoints of the first port of each name, as `id flags`. */
  endpoints(key: string): readonly string[] {
    for (const dirty of this.all()) {
      const found = this.tracker.servicePort(dirty)
      if (dirty === key && found !== undefined) {
        return this.tracker
          .endpoints(found)
          .map((one) => `${formatEndpoint(one.address, one.port)}${one.isTerminating ? ' terminating' : ''}`)
      }
    }
    return []
  }

  all() {
    this.tracker.markAll()
    return this.tracker.take()
  }
}

const webKey = 'default/web:/TCP'

describe('the Services that a family programs', () => {
  const dual = { clusterIPs: ['10.0.0.1', 'fd00::1'], ipFamilies: ['IPv4', 'IPv6'] as const }
  const cases: readonly (readonly [string, ObjectEvent, readonly string[], readonly string[]])[] = [
    ['without ipFamilies by its address', set(service('web', '10.0.0.1')), ['10.0.0.1'], []],
    ['IPv6 without ipFamilies', set(service('web', 'fd00::1')), [], ['fd00::1']],
    ['dual-stack', set(service('web', '10.0.0.1', dual)), ['10.0.0.1'], ['fd00::1']],
    [
      'dual-stack, IPv6 first',
      set(service('web', 'fd00::1', { clusterIPs: ['fd00::1', '10.0.0.1'], ipFamilies: ['IPv6', 'IPv4'] })),
      ['10.0.0.1'],
      ['fd00::1'],
    ],
    ['sloppy address', set(service('web', '172.30.0.041')), ['172.30.0.41'], []],
    ['headless', set(service('web', 'None')), [], []],
    ['ExternalName, even with an address', set(service('web', '10.0.0.1', { type: 'ExternalName' })), [], []],
    [
      "another proxy's, with an empty label",
      set(service('web', '10.0.0.1', { labels: { 'service.kubernetes.io/service-proxy-name': '' } })),
      [],
      [],
    ],
    [
      'ipFamilies names a family without an address',
      set(service('web', '10.0.0.1', { clusterIPs: ['10.0.0.1'], ipFamilies: ['IPv4', 'IPv6'] })),
      ['10.0.0.1'],
      [],
    ],
  ]
  for (const [name, event, ipv4, ipv6] of cases) {
    it(name, () => {
      for (const [family, expected] of [
        ['ipv4', ipv4],
        ['ipv6', ipv6],
      ] as const) {
        const tracked = new Tracked(family)
        const found =
          tracked.after(event).length === 0
            ? []
            : [...tracked.all()].map((key) => tracked.tracker.servicePort(key)?.clusterIP)
        assert.deepEqual(found, expected)
        assert.deepEqual(tracked.problems, [])
      }
    })
  }

  it('no cluster IP is a problem of only one family, until there is one', () => {
    for (const [ipFamilies, [reporting, silent]] of [
      [[], ['ipv4', 'ipv6']],
      [
        ['IPv4', 'IPv6'],
        ['ipv4', 'ipv6'],
      ],
      [['IPv6'], ['ipv6', 'ipv4']],
    ] as const) {
      const event = set(service('web', '', { clusterIPs: [], ipFamilies }))
      const [reporter, other] = [new Tracked(reporting), new Tracked(silent)]
      assert.deepEqual([reporter.after(event), other.after(event)], [[], []])
      assert.deepEqual(reporter.problems, [
        'Service default/web: spec.clusterIP is missing: nothing is programmed; write an address, a nodePort or externalIPs, or None for a headless Service',
      ])
      assert.deepEqual(other.problems, [])
      const states: unknown[] = []
      const tracker = trackFamily(reporting, (_object, found) => states.push(found?.length))
      const one = service('web', reporting === 'ipv4' ? '10.0.0.1' : 'fd00::1')
      for (const next of [event, set(service('web', 'None')), event, set(one)]) tracker.apply(next)
      assert.deepEqual(states, [1, undefined, 1, 0])
    }
  })

  it('a Service of another proxy, or an ExternalName one, needs no cluster IP', () => {
    for (const overrides of [
      { type: 'ExternalName' as const },
      { labels: { 'service.kubernetes.io/service-proxy-name': 'x' } },
    ]) {
      const tracked = new Tracked()
      tracked.after(set(service('web', '', overrides)))
      assert.deepEqual(tracked.problems, [])
    }
  })

  it('an unreadable address is a problem of only one family', () => {
    const events = [set(service('web', '10.0.0'))]
    const [ipv4, ipv6] = [new Tracked('ipv4'), new Tracked('ipv6')]
    assert.deepEqual([ipv4.after(...events), ipv6.after(...events)], [[], []])
    assert.deepEqual(ipv4.problems, ['Service default/web: clusterIP "10.0.0" is not an IP address'])
    assert.deepEqual(ipv6.problems, [])
  })
})

function portsWith(https: number) {
  return {
    ports: [
      { name: 'http', protocol: 'TCP' as const, port: 1 },
      { name: 'https', protocol: 'TCP' as const, port: https },
    ],
  }
}

describe('the service ports that a change makes dirty', () => {
  const two = [port(80, { name: 'http' }), port(443, { name: 'https' })]

  it('are only the changed ports, by number or protocol', () => {
    const tracked = new Tracked()
    assert.deepEqual(tracked.after(set(service('web', '10.0.0.1', { ports: two }))), [
      'default/web:http/TCP',
      'default/web:https/TCP',
    ])
    const moved = [port(80, { name: 'http' }), port(444, { name: 'https' })]
    assert.deepEqual(tracked.after(set(service('web', '10.0.0.1', { ports: moved }))), [
      'default/web:https/TCP',
    ])
    const udp = [port(80, { name: 'http' }), port(444, { name: 'https', protocol: 'UDP' })]
    assert.deepEqual(tracked.after(set(service('web', '10.0.0.1', { ports: udp }))), [
      'default/web:https/TCP',
      'default/web:https/UDP',
    ])
  })

  it('are none for a change of irrelevant fields', () => {
    const tracked = new Tracked()
    tracked.after(set(service('web', '10.0.0.1')), set(slice('s', 'web', ['10.1.0.1'])))
    assert.deepEqual(
      tracked.after(
        set(
          service('web', '10.0.0.1', {
            labels: { 'topology.kubernetes.io/zone': 'y' },
            externalTrafficPolicy: 'Local',
          }),
        ),
      ),
      [],
    )
    assert.deepEqual(tracked.after(set(slice('s', 'web', ['10.1.0.1']))), [])
    assert.deepEqual(tracked.after(remove('EndpointSlice', 'unknown'), remove('Service', 'unknown')), [])
  })

  it('are only the ports whose endpoints changed', () => {
    const tracked = new Tracked()
    tracked.after(
      set(service('web', '10.0.0.1', { ports: two })),
      set(slice('s', 'web', ['10.1.0.1'], portsWith(2))),
    )
    assert.deepEqual(tracked.after(set(slice('s', 'web', ['10.1.0.1'], portsWith(3)))), [
      'default/web:https/TCP',
    ])
  })

  it('are those of both Services when a slice moves from one to the other', () => {
    const tracked = new Tracked()
    tracked.after(
      set(service('a', '10.0.0.1')),
      set(service('b', '10.0.0.2')),
      set(slice('s', 'a', ['10.1.0.1'])),
    )
    assert.deepEqual(tracked.after(set(slice('s', 'b', ['10.1.0.1']))), ['default/a:/TCP', 'default/b:/TCP'])
    assert.deepEqual(tracked.endpoints('default/a:/TCP'), [])
    assert.deepEqual(tracked.endpoints('default/b:/TCP'), ['10.1.0.1:8080'])
    assert.deepEqual(tracked.after(set(slice('s', undefined, ['10.1.0.1']))), ['default/b:/TCP'])
  })

  it('include a Service that arrives after its slices, also after a deletion', () => {
    const tracked = new Tracked()
    assert.deepEqual(tracked.after(set(slice('s', 'web', ['10.1.0.1']))), [])
    assert.deepEqual(tracked.after(set(service('web', '10.0.0.1'))), [webKey])
    assert.deepEqual(tracked.after(remove('Service', 'web')), [webKey])
    assert.deepEqual(tracked.after(set(service('web', '10.0.0.1'))), [webKey])
    assert.deepEqual(tracked.endpoints(webKey), ['10.1.0.1:8080'])
  })
})

describe('endpoints of several slices', () => {
  const leaving = endpoint('10.1.0.1', { ready: false, terminating: true })
  const cases = [
    {
      name: 'duplicates are merged',
      slices: [['10.1.0.1'], ['10.1.0.1', '10.1.0.2']],
      expected: ['10.1.0.1:8080', '10.1.0.2:8080'],
    },
    {
      name: 'a ready endpoint replaces a terminating duplicate',
      slices: [[leaving], ['10.1.0.1']],
      expected: ['10.1.0.1:8080'],
    },
    {
      name: 'a terminating duplicate does not replace a ready endpoint',
      slices: [['10.1.0.1'], [leaving]],
      expected: ['10.1.0.1:8080'],
    },
    {
      name: 'a terminating endpoint without a duplicate stays',
      slices: [[leaving], [leaving]],
      expected: ['10.1.0.1:8080 terminating'],
    },
  ] as const
  for (const { name, slices, expected } of cases) {
    for (const order of [
      [0, 1],
      [1, 0],
    ] as const) {
      it(`${name}, slice ${order[0]} first`, () => {
        const tracked = new Tracked()
        tracked.after(set(service('web', '10.0.0.1')))
        for (const index of order) tracked.after(set(slice(`s${index}`, 'web', slices[index])))
        assert.deepEqual(tracked.endpoints(webKey).toSorted(), expected)
      })
    }
  }

  it('equal a map by address and port with sorted keys', () => {
    const addresses = ['10.0.0.1', '10.0.0.10', '10.0.0.100', '10.0.0.2', '9.255.0.1', '110.0.0.1']
    const anEndpoint = fc
      .record({ address: fc.constantFrom(...addresses), terminating: fc.boolean() })
      .map(({ address, terminating }) => endpoint(address, { terminating }))
    const aSlice = fc.record({
      endpoints: fc.array(anEndpoint, { maxLength: 8 }),
      ports: fc.uniqueArray(fc.constantFrom(80, 800, 8080), { minLength: 1 }),
    })
    fc.assert(
      fc.property(fc.array(aSlice, { maxLength: 4 }), (slices) => {
        const tracked = new Tracked()
        const expected = new Map<string, string>()
        const named = slices.map(({ endpoints, ports }, i) => {
          for (const number of ports)
            for (const { address, conditions } of endpoints) {
              const id = `${address}:${number}`
              if (!expected.has(id) || !conditions.terminating)
                expected.set(id, conditions.terminating ? `${id} terminating` : id)
            }
          const slicePorts = ports.map((number) => ({ name: '', protocol: 'TCP', port: number }) as const)
          return set(slice(`web-${i}`, 'web', endpoints, { addressType: 'IPv4', ports: slicePorts }))
        })
        tracked.after(set(service('web', '10.96.0.1')), ...named.toReversed())
        const sorted = [...expected].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, text]) => text)
        assert.deepEqual(tracked.endpoints(webKey), sorted)
      }),
    )
  })

  it('include only named ports and readable addresses of the own family, and no headless slices', () => {
    const tracked = new Tracked()
    tracked.after(set(service('web', '10.0.0.1')))
    const noName = {
      ports: [
        { name: undefined, protocol: 'TCP' as const, port: 1 },
        { name: '', protocol: 'TCP' as const, port: undefined },
      ],
    }
    tracked.after(
      set(slice('unnamed', 'web', ['10.1.0.1'], noName)),
      set(slice('six', 'web', ['fd00::1'])),
      set(slice('fqdn', 'web', ['10.1.0.2'], { addressType: 'FQDN' })),
      set(slice('headless', 'web', ['10.1.0.3'], { labels: { 'service.kubernetes.io/headless': '' } })),
      set(slice('bad', 'web', [endpoint('10.1.0'), endpoint(''), '10.1.0.4'])),
      // The label service-proxy-name counts only on the Service, as in kube-proxy 1.36.
      set(
        slice('other', 'web', ['10.1.0.5'], { labels: { 'service.kubernetes.io/service-proxy-name': 'x' } }),
      ),
    )
    assert.deepEqual(tracked.endpoints(webKey), ['10.1.0.4:8080', '10.1.0.5:8080'])
    assert.deepEqual(tracked.problems, [
      'EndpointSlice default/unnamed: a port without a name is ignored',
      'EndpointSlice default/bad: endpoint address "10.1.0" is not an IP address',
      'EndpointSlice default/bad: endpoint address "" is not an IP address',
    ])
  })
})

it('keeps the endpoint objects that a change leaves equal', () => {
  const { tracker } = new Tracked()
  const found = (...events: readonly ObjectEvent[]) => {
    for (const event of events) tracker.apply(event)
    tracker.markAll()
    const ports = [...tracker.take()].map((key) => tracker.servicePort(key))
    return ports.flatMap((one) => (one === undefined ? [] : tracker.endpoints(one)))
  }
  const addresses = ['10.1.0.1', '10.1.0.2', '10.1.0.3', '10.1.0.4']
  const before = found(set(service('web', '10.0.0.1')), set(slice('web-a', 'web', addresses)))
  const after = found(set(slice('web-a', 'web', ['10.1.0.1', '10.1.0.22', '10.1.0.3', '10.1.0.4'])))
  assert.deepEqual(after.filter((one) => before.includes(one)).length, 3)
})

function numbered(count: number): readonly ServicePortSpec[] {
  return Array.from({ length: count }, (_, i) => port(8000 + i, { name: `p${i}` }))
}

describe('a slice with many ports', () => {
  const addresses = Array.from({ length: 20 }, (_, i) => `10.1.0.${i + 1}`)

  /** How often a change of one endpoint reads the endpoints, when the slice has so many ports. */
  const readsOfChange = (portCount: number): number => {
    let reads = 0
    const counted = (address: string): SliceEndpoint => ({
      ...endpoint(address),
      get nodeName() {
        reads++
        return undefined
      },
    })
    const ports = numbered(portCount)
    const { tracker } = new Tracked()
    tracker.apply(set(service('web', '10.0.0.1', { ports })))
    tracker.apply(set(slice('s', 'web', addresses.map(counted), { ports })))
    tracker.take()
    reads = 0
    tracker.apply(set(slice('s', 'web', ['10.1.0.200', ...addresses.slice(1)].map(counted), { ports })))
    assert.equal(tracker.take().size, portCount)
    return reads
  }

  it('compares its endpoints once, not once per port', () => {
    assert.equal(readsOfChange(100), readsOfChange(1))
  })

  it('has one list of endpoints for all ports with the same number', () => {
    const ports = ['a', 'b'].map((name) => port(8080, { name }))
    const { tracker } = new Tracked()
    tracker.apply(set(service('web', '10.0.0.1', { ports })))
    tracker.apply(set(slice('s', 'web', addresses, { ports })))
    const [a, b] = tracker.servicePortsOf('default/web').map((one) => tracker.endpoints(one))
    assert.equal(a, b)
  })

  it('keeps the endpoint objects of every port that a change leaves equal', () => {
    const ports = numbered(3)
    const { tracker } = new Tracked()
    tracker.apply(set(service('web', '10.0.0.1', { ports })))
    tracker.apply(set(slice('s', 'web', addresses, { ports })))
    const lists = () => tracker.servicePortsOf('default/web').map((one) => tracker.endpoints(one))
    const before = lists()
    tracker.apply(set(slice('s', 'web', ['10.1.0.200', ...addresses.slice(1)], { ports })))
    const kept = lists().map((list, i) => list.filter((one) => before[i]?.includes(one)).length)
    assert.deepEqual(kept, [19, 19, 19])
  })
})
