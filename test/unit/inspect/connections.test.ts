import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { ServiceFlow } from '../../../src/engine/index.js'
import { connections, type Inspected, readCounters } from '../../../src/inspect/index.js'
import { trackFamily, type TrackedFamily } from '../../support/tracked-family.js'
import { NodeTracker } from '../../../src/node/index.js'
import { type Frontend, route } from '../../../src/routing/index.js'
import { withOwners } from '../../support/frontend-owners.js'
import { ManualClock } from '../../support/manual-clock.js'
import { port, service, set } from '../../support/objects.js'
import { ip } from '../../support/routes.js'

const clusterIP = ip('10.96.0.10')

const flow: ServiceFlow = {
  protocol: 'tcp',
  source: clusterIP,
  sourcePort: 40_000,
  destination: clusterIP,
  destinationPort: 80,
  endpoint: { address: clusterIP, port: 8080 },
  state: 'ESTABLISHED',
  timeoutSeconds: 900,
}

/** The agent as `connections` sees it: one family, whose mode lists these flows. */
function inspectedWith(tracker: TrackedFamily, readFlows: () => AsyncIterable<ServiceFlow>): Inspected {
  const node = new NodeTracker('here')
  const view = {
    health: { family: 'ipv4' },
    // Events come later.
    ownerOf: (frontend: Frontend) =>
      withOwners({ services: tracker, node: node.facts, machine: [], rules: {} }).ownerOf(frontend),
    services: tracker,
    readFlows: async () => await Promise.resolve(readFlows()),
    packetRules: () => undefined,
  }
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  return {
    clock: new ManualClock(),
    node,
    machineAddresses: async () => await Promise.resolve([]),
    synchronizer: { views: [view] },
  } as unknown as Inspected
}

describe('the connections of a mode', () => {
  it('of one Service leave out those to an address of another on the number of its node port', async () => {
    const tracker = trackFamily('ipv4')
    const nodePort = { type: 'NodePort', ports: [port(80, { nodePort: 30_080 })] } as const
    tracker.apply(set(service('np', '10.96.0.11', nodePort)))
    tracker.apply(set(service('other', clusterIP, { ports: [port(30_080)] })))
    const toOther = { ...flow, destinationPort: 30_080 }
    const toNode = { ...toOther, destination: ip('192.0.2.1') }
    async function* flows(): AsyncGenerator<ServiceFlow> {
      yield* await Promise.resolve([toOther, toNode])
    }
    const inspected = inspectedWith(tracker, flows)
    const frontends = async (name?: string): Promise<readonly (readonly [string, string])[]> => {
      const found = await connections(inspected, name, new AbortController().signal)
      return (found?.connections ?? []).map((row) => [row.service, row.frontend])
    }
    const rowOfNode = ['default/np', '192.0.2.1:30080']
    const rowOfOther = ['default/other', '10.96.0.10:30080']
    assert.deepEqual(await frontends(), [rowOfOther, rowOfNode])
    assert.deepEqual(await frontends('default/np'), [rowOfNode])
    assert.deepEqual(await frontends('default/other'), [rowOfOther])
    const [reading] = (await readCounters(inspected, 'default/np')).values()
    const counted = tracker
      .servicePortsOf('default/np')
      .map((np) => reading?.(route(np, [], new NodeTracker('here').facts))?.total)
    assert.deepEqual(counted, [{ activeConnections: 1, inactiveConnections: 0 }])
  })

  it('are read no further when the client is gone', async () => {
    const gone = new AbortController()
    let read = 0
    let isClosed = false
    async function* endless(): AsyncGenerator<ServiceFlow> {
      try {
        for (;;) {
          if (++read === 5000) gone.abort()
          yield await Promise.resolve(flow)
        }
      } finally {
        isClosed = true
      }
    }
    const tracker = trackFamily('ipv4')
    tracker.apply(set(service('web', clusterIP)))
    await connections(inspectedWith(tracker, endless), undefined, gone.signal)
    assert.deepEqual({ read, isClosed }, { read: 5000, isClosed: true })
  })
})
