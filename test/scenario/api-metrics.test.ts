// Requests to a fake API server, from the source and the sender that the agent opens to the text of the metrics.
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { Registry } from 'prom-client'
import { resolveConfig } from '../../src/config/index.js'
import { EventSender } from '../../src/events/index.js'
import { openLog } from '../../src/log.js'
import { openMetrics } from '../../src/metrics/index.js'
import { nodeFileSystem, openSource, type OpenedSource } from '../../src/source/index.js'
import { starting, statusFault } from '../support/event-lab.js'
import { delays, KubernetesLab } from '../support/kubernetes-lab.js'

const log = openLog({
  format: 'json',
  verbosity: 0,
  destination: { write: () => undefined },
  clock: { unixMs: () => 0 },
})

let lab: KubernetesLab
let registry: Registry
let opened: OpenedSource
let sender: EventSender
/** Number of requests whose answer has begun or will never come. */
let answered = 0

beforeEach(async () => {
  lab = new KubernetesLab()
  await lab.server.listen()
  registry = new Registry()
  const metrics = openMetrics(registry)
  answered = 0
  const { clock } = lab
  const config = resolveConfig({ client: { master: lab.server.url.href } })
  opened = await openSource(config, {
    fileSystem: nodeFileSystem,
    clock,
    log,
    metrics: {
      ...metrics,
      apiRequest: (report) => {
        metrics.apiRequest(report)
        answered += 1
        lab.server.onChange()
      },
    },
    onCrash: (error) => assert.fail(String(error)),
    nodeName: 'node-a',
    environment: {},
  })
  sender = new EventSender({
    client: opened.client,
    nodeName: 'node-a',
    limit: { qps: -1, burst: 0 },
    clock,
    random: () => 0,
    log,
    metrics,
  })
})

afterEach(async () => {
  await sender.stop(0)
  await opened.source.stop()
  await lab.close()
})

/** Samples of the metrics `rest_client_*`, without the host, with only the buckets of 0.25 and 15 seconds. */
async function samples(): Promise<readonly string[]> {
  const { host } = lab.server.url
  return (await registry.metrics())
    .split('\n')
    .filter((line) => line.startsWith('rest_client_') && line.includes(`host="${host}"`))
    .filter((line) => !line.includes('le=') || /le="(?:0\.25|15)"/u.test(line))
    .map((line) => line.replaceAll(`,host="${host}"`, ''))
    .toSorted()
}

describe('requests to the API server', () => {
  it('are counted by method and code, and timed until their answer begins', async () => {
    lab.server.options = { streamedLists: 'yes' }
    lab.server.setFault('Service', statusFault(503))
    lab.server.setFault('Node', { type: 'silence' })
    opened.source.followNodes?.('own')
    void opened.source.start(() => undefined)
    // The request for EndpointSlices is answered and stays open.
    await lab.until(() => lab.server.requests.length === 3 && answered === 2)
    sender.record(starting)
    await lab.until(() => answered === 3)
    await lab.fire(delays.answer)
    await lab.until(() => answered === 4)
    assert.deepEqual(lab.server.requests.toSorted(), [
      'EndpointSlice stream',
      'Node stream',
      'Service stream',
    ])
    assert.deepEqual(await samples(), [
      'rest_client_request_duration_seconds_bucket{le="0.25",verb="GET"} 2',
      'rest_client_request_duration_seconds_bucket{le="0.25",verb="POST"} 1',
      'rest_client_request_duration_seconds_bucket{le="15",verb="GET"} 3',
      'rest_client_request_duration_seconds_bucket{le="15",verb="POST"} 1',
      'rest_client_request_duration_seconds_count{verb="GET"} 3',
      'rest_client_request_duration_seconds_count{verb="POST"} 1',
      'rest_client_request_duration_seconds_sum{verb="GET"} 10',
      'rest_client_request_duration_seconds_sum{verb="POST"} 0',
      'rest_client_requests_total{code="200",method="GET"} 1',
      'rest_client_requests_total{code="201",method="POST"} 1',
      'rest_client_requests_total{code="503",method="GET"} 1',
      'rest_client_requests_total{code="<error>",method="GET"} 1',
    ])
  })
})
