import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { beforeEach, describe, it } from 'node:test'
import { Registry } from 'prom-client'
import type { IpAddress } from '../../../../src/address.js'
import { openModelKernel, type ModelConntrack, type ModelFlow } from '../../../model/index.js'
import { openProblems } from '../../../../src/engine/index.js'
import { openLog } from '../../../../src/log.js'
import { openMetrics } from '../../../../src/metrics/index.js'
import { servicePortKey } from '../../../../src/model/testing.js'
import type { Route } from '../../../../src/routing/index.js'
import { ConntrackCleaner } from '../../../../src/layers/shared/testing.js'
import { ManualClock } from '../../../support/manual-clock.js'
import { backends, ip, plainRoute } from '../../../support/routes.js'

const key = servicePortKey('kube-system/dns', 'dns/UDP')

function dns(...addresses: readonly string[]): Route {
  const flowBackends = backends(53, ...addresses)
  return plainRoute({ key, protocol: 'UDP', clusterIP: ip('10.96.0.10'), port: 53, flowBackends })
}

/** A client's flow to 10.96.0.10:53 with the backend `answering`. */
function flow(answering: string, rest: Partial<ModelFlow> = {}): ModelFlow {
  return {
    protocol: 'udp',
    source: ip('10.244.0.9'),
    sourcePort: 40_000,
    destination: ip('10.96.0.10'),
    destinationPort: 53,
    replySource: ip(answering),
    replySourcePort: 53,
    ...rest,
  }
}

class Bench {
  readonly lines: string[] = []
  readonly registry = new Registry()
  readonly conntrack: ModelConntrack = openModelKernel().conntrack
  nodePortAddresses: () => readonly IpAddress[] = () => [ip('192.0.2.1')]
  readonly cleaner: ConntrackCleaner

  constructor() {
    const write = (line: string): void => void this.lines.push(String(JSON.parse(line).msg))
    const log = openLog({ format: 'json', verbosity: 0, destination: { write }, clock: { unixMs: () => 0 } })
    this.cleaner = new ConntrackCleaner({
      family: 'ipv4',
      conntrack: this.conntrack,
      nodePortAddresses: async () => this.nodePortAddresses(),
      clock: new ManualClock(),
      metrics: openMetrics(this.registry).ipv4,
      log,
      problems: openProblems({ log }),
    })
  }

  /** Sample of a metric of IPv4. */
  async sample(name: string): Promise<string | undefined> {
    const lines = (await this.registry.metrics()).split('\n')
    return lines
      .find((line) => line.startsWith(`${name}{ip_family="IPv4"}`))
      ?.split(' ')
      .at(-1)
  }
}

describe('the clean-up of flows', () => {
  let bench: Bench
  beforeEach(() => {
    bench = new Bench()
  })

  it('looks at every frontend the first time, in one call', async () => {
    bench.conntrack.flows = [flow('10.244.1.5'), flow('10.244.9.9'), flow('10.96.0.10')]
    const web = servicePortKey('default/web', '/UDP')
    const other = plainRoute({ key: web, protocol: 'UDP' })
    await bench.cleaner.clean([
      [key, dns('10.244.1.5')],
      [web, other],
    ])
    assert.deepEqual(bench.conntrack.flows, [flow('10.244.1.5')])
    assert.equal(bench.conntrack.calls.length, 1)
    assert.equal(await bench.sample('kubeproxy_conntrack_reconciler_deleted_entries_total'), '2')
    assert.equal(await bench.sample('kubeproxy_conntrack_reconciler_sync_duration_seconds_count'), '1')
  })

  it('sends no request when no flow can be stale', async () => {
    await bench.cleaner.clean([])
    await bench.cleaner.clean([[servicePortKey('default/web', '/TCP'), plainRoute()]])
    assert.deepEqual(bench.conntrack.calls, [])
    await bench.cleaner.clean([[key, dns('10.244.1.5')]])
    await bench.cleaner.clean([[key, dns('10.244.1.5', '10.244.1.6')]])
    assert.equal(bench.conntrack.calls.length, 1)
  })

  const changes = [
    ['an endpoint that left', dns('10.244.1.6'), [flow('10.244.1.6')]],
    ['a Service without endpoints', dns(), []],
    ['a Service that is gone', undefined, []],
  ] as const
  for (const [name, next, left] of changes) {
    it(`deletes the flows of ${name}`, async () => {
      await bench.cleaner.clean([[key, dns('10.244.1.5', '10.244.1.6')]])
      const elsewhere = flow('10.244.1.5', { protocol: 'tcp' })
      bench.conntrack.flows = [flow('10.244.1.5'), flow('10.244.1.6'), elsewhere]
      await bench.cleaner.clean([[key, next]])
      assert.deepEqual(bench.conntrack.flows, [...left, elsewhere])
    })
  }

  it('retries a refused deletion with the current backends, and logs it once', async () => {
    await bench.cleaner.clean([[key, dns('10.244.1.5', '10.244.1.6')]])
    bench.conntrack.flows = [flow('10.244.1.5'), flow('10.244.1.6')]
    bench.conntrack.fault = () => constants.errno.ENOBUFS
    await bench.cleaner.clean([[key, dns('10.244.1.6')]])
    await bench.cleaner.clean([])
    assert.deepEqual(bench.lines, [
      'Network programming failed: IPv4: conntrack: dump conntrack entries: ENOBUFS',
    ])
    bench.conntrack.fault = () => undefined
    await bench.cleaner.clean([[key, dns('10.244.1.5')]])
    assert.deepEqual(bench.conntrack.flows, [flow('10.244.1.5')])
    assert.equal(bench.lines.at(-1), 'Network programming recovered')
    await bench.cleaner.clean([])
    assert.equal(bench.conntrack.calls.length, 4)
  })

  it('checks all frontends again on request', async () => {
    await bench.cleaner.clean([[key, dns('10.244.1.5')]])
    bench.conntrack.flows = [flow('10.96.0.10')]
    await bench.cleaner.clean([])
    assert.equal(bench.conntrack.flows.length, 1)
    bench.cleaner.recheck()
    await bench.cleaner.clean([])
    assert.deepEqual(bench.conntrack.flows, [])
  })

  it('reads the node port addresses only when a flow may go to a node port', async () => {
    const asked: string[] = []
    const toNode = flow('10.244.9.9', { destination: ip('192.0.2.1'), destinationPort: 30053 })
    const toForeignHost = flow('10.244.9.9', { destination: ip('198.51.100.7'), destinationPort: 30053 })
    bench.conntrack.flows = [toNode, toForeignHost]
    bench.nodePortAddresses = () => {
      asked.push('asked')
      return [ip('192.0.2.1')]
    }
    await bench.cleaner.clean([[key, dns('10.244.1.5')]])
    assert.deepEqual(asked, [])
    await bench.cleaner.clean([[key, { ...dns('10.244.1.5'), nodePort: 30053 }]])
    assert.deepEqual(asked, ['asked'])
    assert.deepEqual(bench.conntrack.flows, [toForeignHost])
  })

  it('rethrows errors that are not from the kernel', async () => {
    bench.conntrack.fault = () => {
      throw new TypeError('a bug')
    }
    await assert.rejects(bench.cleaner.clean([[key, dns()]]), { name: 'TypeError' })
  })
})
