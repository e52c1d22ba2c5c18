import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { IpAddress } from '../../../src/address.js'
import type { PipelineView, ServiceFlow } from '../../../src/engine/index.js'
import { connections, type Inspected } from '../../../src/inspect/index.js'
import { Tracker } from '../../../src/model/index.js'
import { ManualClock } from '../../support/manual-clock.js'
import { service, set } from '../../support/objects.js'

// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the address is canonical
const clusterIP = '10.96.0.10' as IpAddress

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

describe('the connections of a mode', () => {
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
    const tracker = new Tracker('ipv4', () => {})
    tracker.apply(set(service('web', clusterIP)))
    const readFlows: PipelineView['readFlows'] = async () => await Promise.resolve(endless())
    const view = { health: { family: 'ipv4' }, services: tracker, readFlows }
    // `connections` reads nothing else.
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion
    const inspected = { clock: new ManualClock(), synchronizer: { views: [view] } } as unknown as Inspected
    await connections(inspected, undefined, gone.signal)
    assert.deepEqual({ read, isClosed }, { read: 5000, isClosed: true })
  })
})
