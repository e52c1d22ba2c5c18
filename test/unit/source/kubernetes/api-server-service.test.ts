import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import * as fc from 'fast-check'
import type { Peer } from '../../../../src/api/index.js'
import type { ObjectEvent } from '../../../../src/source/index.js'
import { ApiServerService } from '../../../../src/source/kubernetes/api-server-service.js'
import { describeEvent } from '../../../support/manifest-folder.js'
import { endpoint, port, remove, service, set, slice } from '../../../support/objects.js'
import { MemoryLog } from '../../../support/pipeline-lab.js'

const api = service('kubernetes', '10.96.0.1', { ports: [port(443)] })
const backed = slice('kubernetes', 'kubernetes', ['192.0.2.1'])
const web = service('web', '10.96.0.2')

class Bench {
  readonly log = new MemoryLog()
  readonly service = new ApiServerService(() => (this.peer === 'none' ? undefined : this.peer), this.log)
  peer: Peer | 'none'

  constructor(peer: Peer | 'none' = { address: '10.96.0.1', port: 443 }) {
    this.peer = peer
  }

  /** Passes events. Returns the delivered ones as text: endpoints by their addresses, a Service by its cluster IP. */
  pass(...events: readonly ObjectEvent[]): readonly string[] {
    return this.service.pass(events).map(describe1)
  }

  /** Delivers the first list, slices before Services. */
  list(): void {
    this.pass(set(backed), set(slice('web', 'web', ['10.1.0.1'])), set(api), set(web))
    this.service.endFirstListing()
  }
}

function describe1(event: ObjectEvent): string {
  if (event.type !== 'set' || event.object.kind !== 'EndpointSlice') return describeEvent(event)
  return `+${event.object.name} [${event.object.endpoints.map(({ address }) => address).join(' ')}]`
}

const none = [
  { name: 'a slice without endpoints', event: set({ ...backed, endpoints: [] }) },
  {
    name: 'endpoints, none of them ready',
    event: set({ ...backed, endpoints: [endpoint('192.0.2.1', { ready: false, serving: false })] }),
  },
  {
    name: 'endpoints that are unready and not terminating',
    event: set({ ...backed, endpoints: [endpoint('192.0.2.1', { ready: false })] }),
  },
  { name: 'a slice without the port', event: set({ ...backed, ports: [] }) },
  {
    name: 'a slice with another port',
    event: set({ ...backed, ports: [{ name: 'x', protocol: 'TCP', port: 1 }] }),
  },
  { name: 'a slice that moved to another Service', event: set({ ...backed, serviceName: 'web' }) },
  { name: 'a deleted slice', event: remove('EndpointSlice', 'kubernetes') },
  { name: 'a deleted Service', event: remove('Service', 'kubernetes') },
  { name: 'a Service with another address', event: set({ ...api, clusterIPs: ['10.96.0.9'] }) },
  { name: 'a Service with another port', event: set({ ...api, ports: [port(444)] }) },
] as const satisfies readonly { name: string; event: ObjectEvent }[]

describe('ApiServerService', () => {
  for (const { name, event } of none) {
    it(`withholds a change after which the API server's Service has no backends: ${name}`, () => {
      const bench = new Bench()
      bench.list()
      assert.deepEqual(bench.pass(event, remove('Service', 'web')), ['-Service default/web'])
      assert.deepEqual(bench.pass(event), [])
      assert.equal(bench.log.find('warn', 'the last ones stay').length, 1)
    })

    it(`delivers the change when the API server's Service has backends again: ${name}`, () => {
      const bench = new Bench()
      bench.list()
      bench.pass(event)
      const again = set(slice('kubernetes-2', 'kubernetes', ['192.0.2.2']))
      const passed = [...bench.pass(again), ...bench.pass(set(api))]
      const lasting = event.type === 'set' && event.object.kind === 'EndpointSlice'
      assert.ok(passed.includes('+kubernetes-2 [192.0.2.2]'))
      assert.equal(
        passed.some((text) => text.startsWith('+kubernetes [')),
        lasting,
      )
      assert.equal(bench.log.find('info', 'uses its current endpoints again').length, 1)
    })
  }

  it('delivers additions before deletions', () => {
    const bench = new Bench()
    bench.list()
    bench.pass(remove('EndpointSlice', 'kubernetes'))
    assert.deepEqual(bench.pass(set(slice('other', 'kubernetes', ['192.0.2.7']))), [
      '+other [192.0.2.7]',
      '-EndpointSlice default/kubernetes',
    ])
  })

  it('delivers all changes if connections to the server do not use the Service', () => {
    const bench = new Bench()
    bench.list()
    assert.deepEqual(bench.pass(set({ ...backed, endpoints: [] })), [])
    bench.peer = { address: '192.0.2.9', port: 6443 }
    assert.deepEqual(bench.pass(set(web)), ['+kubernetes []', '+Service default/web 10.96.0.2'])
    assert.deepEqual(bench.pass(set(backed)), ['+kubernetes [192.0.2.1]'])
    assert.deepEqual(bench.pass(set({ ...backed, endpoints: [] })), ['+kubernetes []'])
  })

  it('delivers a replacement of the last endpoints at once', () => {
    const bench = new Bench()
    bench.list()
    const moved = set({ ...backed, endpoints: [endpoint('192.0.2.2')] })
    assert.deepEqual(bench.pass(moved), ['+kubernetes [192.0.2.2]'])
    const leaving = set({
      ...backed,
      endpoints: [endpoint('192.0.2.2', { ready: false, terminating: true })],
    })
    assert.deepEqual(bench.pass(leaving), ['+kubernetes [192.0.2.2]'], 'traffic goes to it still')
  })

  it('does not believe that another Service has the frontend: no other one gets it', () => {
    const bench = new Bench()
    bench.list()
    assert.deepEqual(bench.pass(remove('Service', 'kubernetes')), [])
    const heir = set(service('a/heir', '10.96.0.1', { ports: [port(443)] }))
    assert.deepEqual(bench.pass(heir), ['+Service a/heir 10.96.0.1'])
    assert.deepEqual(bench.pass(set(api)), ['+Service default/kubernetes 10.96.0.1'])
  })

  it('uses the first of two Services with the frontend', () => {
    const bench = new Bench()
    bench.list()
    const second = set(service('a/second', '10.96.0.3', { externalIPs: ['10.96.0.1'], ports: [port(443)] }))
    assert.deepEqual(bench.pass(second), ['+Service a/second 10.96.0.3'])
    assert.deepEqual(bench.pass(remove('Service', 'a/second')), ['-Service a/second'])
    assert.deepEqual(bench.pass(remove('Service', 'kubernetes')), [])
  })

  const frontends = [
    { name: 'an external IP', rest: { externalIPs: ['198.51.100.1'] }, address: '198.51.100.1' },
    {
      name: 'an address of a load balancer',
      rest: { loadBalancerIngress: [{ ip: '198.51.100.1', ipMode: 'VIP' }] },
      address: '198.51.100.1',
    },
    { name: 'an address with leading zeros', rest: { clusterIPs: ['010.096.0.07'] }, address: '10.96.0.7' },
  ] as const
  for (const { name, rest, address } of frontends) {
    it(`recognizes the Service by ${name}`, () => {
      const bench = new Bench({ address, port: 443 })
      bench.pass(set({ ...api, ...rest }), set(backed))
      assert.deepEqual(bench.pass(remove('EndpointSlice', 'kubernetes')), [])
    })
  }

  it('counts only endpoints of the IP family of its connections', () => {
    const bench = new Bench({ address: 'fd00::1', port: 443 })
    const six = slice('six', 'kubernetes', ['fd00:1::1'])
    bench.pass(set({ ...api, clusterIPs: ['10.96.0.1', 'FD00:0::1'] }), set(backed), set(six))
    assert.deepEqual(bench.pass(remove('EndpointSlice', 'kubernetes')), ['-EndpointSlice default/kubernetes'])
    assert.deepEqual(bench.pass(remove('EndpointSlice', 'six')), [])
  })

  it('withholds nothing without a Service that leads to the API server', () => {
    for (const peer of [
      'none' as const,
      { address: '192.0.2.1', port: 6443 },
      { address: '10.96.0.1', port: 6443 },
    ]) {
      const bench = new Bench(peer)
      bench.list()
      for (const { event } of none) assert.equal(bench.pass(event).length, 1)
      assert.ok(bench.service.isComplete)
    }
  })

  it('is incomplete while its Service is listed without backends, because the kernel may have some', () => {
    const bench = new Bench()
    assert.ok(bench.service.isComplete)
    assert.deepEqual(bench.pass(set(api)), ['+Service default/kubernetes 10.96.0.1'])
    assert.equal(bench.service.isComplete, false)
    bench.pass(set(backed))
    assert.ok(bench.service.isComplete)
    bench.pass(remove('EndpointSlice', 'kubernetes'))
    assert.ok(bench.service.isComplete)
  })

  it('never removes the last backends for any order of events, and reaches the state of the API', () => {
    const events: fc.Arbitrary<ObjectEvent> = fc.oneof(
      fc.constantFrom(set(api), set(web), remove('Service', 'kubernetes'), remove('Service', 'web')),
      fc
        .record({
          name: fc.constantFrom('a', 'b'),
          owner: fc.constantFrom('kubernetes', 'web'),
          ips: fc.subarray(['192.0.2.1', '192.0.2.2']),
        })
        .map(({ name, owner, ips }) => set(slice(name, owner, ips))),
      fc.constantFrom('a', 'b').map((name) => remove('EndpointSlice', name)),
    )
    fc.assert(
      fc.property(fc.array(events, { maxLength: 30 }), fc.boolean(), (sequence, isListing) => {
        const bench = new Bench()
        const [sent, delivered] = [new Map<string, ObjectEvent>(), new Map<string, ObjectEvent>()]
        if (!isListing) {
          apply(sent, [set(api)])
          apply(delivered, bench.service.pass([set(api)]))
          bench.service.endFirstListing()
        }
        let wasBacked = false
        for (const event of [...sequence, set(api), set(slice('end', 'kubernetes', ['192.0.2.9']))]) {
          apply(sent, [event])
          apply(delivered, bench.service.pass([event]))
          wasBacked ||= isBacked(delivered)
          assert.equal(isBacked(delivered), wasBacked)
        }
        assert.deepEqual(delivered, sent)
      }),
      { numRuns: 1000 },
    )
  })
})

function apply(world: Map<string, ObjectEvent>, events: readonly ObjectEvent[]): void {
  for (const event of events) {
    if (event.type === 'set') world.set(`${event.object.kind} ${event.object.name}`, event)
    else if (event.type === 'delete') world.delete(`${event.kind} ${event.key.name}`)
  }
}

function isBacked(world: ReadonlyMap<string, ObjectEvent>): boolean {
  return world.has('Service kubernetes') && [...world.values()].some(backs)
}

function backs(event: ObjectEvent): boolean {
  if (event.type !== 'set' || event.object.kind !== 'EndpointSlice') return false
  return event.object.serviceName === 'kubernetes' && event.object.endpoints.length > 0
}
