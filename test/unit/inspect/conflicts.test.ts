// Frontends that are not programmed for the Service, in `services` and `routes`. Both said `serve`, and `routes` named kernel objects that
// the mode does not desire.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import {
  type Inspected,
  type RouteRow,
  routes,
  type ServiceRow,
  services,
} from '../../../src/inspect/index.js'
import { serviceTable } from '../../../src/inspect/rows.js'
import { trackFamily, type TrackedFamily } from '../../support/tracked-family.js'
import { NodeTracker } from '../../../src/node/index.js'
import { ManualClock } from '../../support/manual-clock.js'
import type { ServicePort } from '../../../src/model/index.js'
import type { Frontend, LostFrontend, Route } from '../../../src/routing/index.js'
import { port, service, set, slice } from '../../support/objects.js'
import { ip } from '../../support/routes.js'

function lost(frontend: Frontend): LostFrontend {
  return { frontend, owner: 'default/a:/TCP', reason: 'which sorts first' }
}

const at = (address: string): Frontend => ({
  kind: 'address',
  address: ip(address),
  protocol: 'tcp',
  port: 80,
})
const conflict = lost(at('203.0.113.1'))

interface Settings {
  /** Those of `default/b`. */
  readonly lost?: readonly LostFrontend[]
  readonly isRelayed?: boolean
}

/** The agent as the rows see it: one family. `describe` names the frontends of the route. */
function inspectedWith(tracker: TrackedFamily, settings: Settings): Inspected {
  const { lost: ofB = [conflict], isRelayed = false } = settings
  const view = {
    health: { family: 'ipv4' },
    services: tracker,
    inForceSince: () => undefined,
    packetRules: () => ({ isRelayed }),
    lostFrontends: ({ service: name }: ServicePort) => (name === 'default/b' ? ofB : []),
    // The family leaves the lost frontends out.
    describe: ({ clusterIP = ip('0.0.0.0'), nodePort, externalIPs, loadBalancerIPs }: Route) => [
      [clusterIP, nodePort, ...externalIPs, ...loadBalancerIPs].join(' '),
    ],
  }
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  return {
    clock: new ManualClock(),
    synchronizer: { views: [view] },
    node: new NodeTracker('here'),
  } as unknown as Inspected
}

async function rowsOf(
  inspected: Inspected,
  name: string,
): Promise<{ readonly service: ServiceRow; readonly routes: readonly RouteRow[] }> {
  const [row, ...more] = services(inspected, name, {})?.items ?? []
  assert.ok(row !== undefined && more.length === 0)
  return { service: row, routes: [...(routes(inspected, name, {})?.items ?? [])] }
}

const external = (row: ServiceRow): unknown => serviceTable(0).cells(row)[7]

function trackerWith(b: Parameters<typeof service>[2]): TrackedFamily {
  const tracker = trackFamily('ipv4')
  tracker.apply(set(service('a', '10.96.0.1', { externalIPs: [ip('203.0.113.1')] })))
  tracker.apply(set(service('b', '10.96.0.2', b)))
  tracker.apply(set(slice('b-1', 'b', ['10.1.0.1'])))
  return tracker
}

describe('a frontend that another Service has', () => {
  const tracker = trackerWith({ externalIPs: [ip('203.0.113.1')] })

  it('is a conflict that names the owner, and has no backend and no kernel object', async () => {
    const rows = await rowsOf(inspectedWith(tracker, {}), 'default/b')
    assert.deepEqual(
      rows.routes.map(({ frontend, verdict, backends, reasons, kernel }) => ({
        frontend,
        verdict,
        backends: backends.length,
        last: reasons.at(-1)?.text,
        kernel,
      })),
      [
        {
          frontend: 'tcp 10.96.0.2:80',
          verdict: 'serve',
          backends: 1,
          last: 'endpoints of the cluster serve it',
          kernel: ['10.96.0.2 0 203.0.113.1'],
        },
        {
          frontend: 'tcp 203.0.113.1:80',
          verdict: 'conflict',
          backends: 0,
          last: 'belongs to default/a:/TCP, which sorts first',
          kernel: undefined,
        },
      ],
    )
    assert.equal(rows.service.internal, 'serve')
    assert.deepEqual(rows.service.conflicts, ['tcp 203.0.113.1:80'])
    assert.equal(external(rows.service), 'conflict')
  })

  it('is none for its owner', async () => {
    const rows = await rowsOf(inspectedWith(tracker, {}), 'default/a')
    assert.deepEqual(
      rows.routes.map(({ verdict }) => verdict),
      ['refuse', 'refuse'],
    )
    assert.equal(rows.service.conflicts, undefined)
    assert.equal(external(rows.service), 'refuse')
  })

  it('is marked beside the verdict of the other frontends', async () => {
    const both = trackerWith({ externalIPs: [ip('203.0.113.1'), ip('203.0.113.2')] })
    const rows = await rowsOf(inspectedWith(both, {}), 'default/b')
    assert.equal(external(rows.service), 'serve,conflict')
    assert.deepEqual(rows.routes[0]?.kernel, ['10.96.0.2 0 203.0.113.1 203.0.113.2'])
  })

  it('may be the cluster IP', async () => {
    const same = trackFamily('ipv4')
    for (const name of ['a', 'b']) same.apply(set(service(name, '10.96.0.1')))
    const rows = await rowsOf(inspectedWith(same, { lost: [lost(at('10.96.0.1'))] }), 'default/b')
    assert.equal(rows.service.internal, 'conflict')
    assert.deepEqual(
      rows.routes.map(({ verdict, kernel }) => [verdict, kernel]),
      [['conflict', undefined]],
    )
  })

  // The Service showed no kernel objects.
  it('may be the cluster IP, beside a node port and an external IP of its own', async () => {
    const same = trackFamily('ipv4')
    for (const name of ['a', 'b']) {
      const own = { nodePort: name === 'a' ? 30_080 : 30_081 }
      const externalIPs = [ip(name === 'a' ? '203.0.113.1' : '203.0.113.2')]
      same.apply(set(service(name, '10.96.0.1', { type: 'NodePort', ports: [port(80, own)], externalIPs })))
    }
    const rows = await rowsOf(inspectedWith(same, { lost: [lost(at('10.96.0.1'))] }), 'default/b')
    assert.deepEqual(
      rows.routes.map(({ frontend, verdict, reasons, kernel }) => [
        frontend,
        verdict === 'conflict' ? reasons.at(-1)?.text : '',
        kernel,
      ]),
      [
        ['tcp 10.96.0.1:80', 'belongs to default/a:/TCP, which sorts first', ['10.96.0.1 30081 203.0.113.2']],
        ['tcp 203.0.113.2:80', '', undefined],
        ['tcp node port 30081', '', undefined],
      ],
    )
  })
})

describe('a port of SCTP', () => {
  const tracker = trackerWith({ ports: [port(80, { protocol: 'SCTP' })] })
  for (const { isRelayed, verdict } of [
    { isRelayed: true, verdict: 'refuse' },
    { isRelayed: false, verdict: 'serve' },
  ])
    it(`is ${verdict}d ${isRelayed ? 'by the relay' : 'in other modes'}`, async () => {
      tracker.apply(
        set(slice('b-1', 'b', ['10.1.0.1'], { ports: [{ name: '', protocol: 'SCTP', port: 8080 }] })),
      )
      const rows = await rowsOf(inspectedWith(tracker, { isRelayed, lost: [] }), 'default/b')
      assert.equal(rows.service.internal, verdict)
      assert.equal(rows.routes[0]?.verdict, verdict)
    })
})

describe('a Service without a cluster IP', () => {
  const tracker = trackFamily('ipv4')
  const ports = [port(80, { nodePort: 30080 })]
  tracker.apply(set(service('b', '', { clusterIPs: [], externalIPs: [ip('203.0.113.1')], ports })))
  tracker.apply(set(slice('b-1', 'b', ['10.1.0.1'])))

  it('has rows of its other frontends, and none for the cluster IP', async () => {
    const rows = await rowsOf(inspectedWith(tracker, { lost: [] }), 'default/b')
    assert.deepEqual(
      rows.routes.map(({ frontend, verdict, reasons }) => [frontend, verdict, reasons[0]?.text]),
      [
        ['tcp 203.0.113.1:80', 'serve', 'external IP'],
        ['tcp node port 30080', 'serve', 'node port'],
      ],
    )
    assert.equal(rows.service.clusterIP, undefined)
    assert.equal(rows.service.internal, undefined)
    const [, clusterIP, nodePort, externalIPs, , , internal, outside] = serviceTable(0).cells(rows.service)
    assert.deepEqual(
      [clusterIP, nodePort, externalIPs, internal, outside],
      ['<none>', 30080, '203.0.113.1', '', 'serve'],
    )
  })

  it('has a conflict where another has all of its frontends, not before', async () => {
    const one = await rowsOf(inspectedWith(tracker, {}), 'default/b')
    assert.deepEqual([one.service.internal, one.service.external], [undefined, 'serve'])
    const nodePort = lost({ kind: 'node-port', protocol: 'tcp', port: 30_080 })
    const both = await rowsOf(inspectedWith(tracker, { lost: [conflict, nodePort] }), 'default/b')
    assert.deepEqual([both.service.internal, both.service.external], [undefined, 'conflict'])
  })
})
