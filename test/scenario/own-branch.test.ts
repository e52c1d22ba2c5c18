import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import type { ObjectEvent } from '../../src/source/index.js'
import { apiService, apiSlice } from '../support/api-documents.js'
import { delays, KubernetesLab } from '../support/kubernetes-lab.js'
import { PipelineLab, snapshot } from '../support/pipeline-lab.js'

/** An API server whose own address and port are the frontend of default/kubernetes. */
class Cluster extends KubernetesLab {
  readonly #pipeline: PipelineLab
  #events: ObjectEvent[] = []

  constructor(pipeline: PipelineLab) {
    super()
    this.#pipeline = pipeline
    this.deliver = (events) => this.#events.push(...events)
  }

  async listen(endpoints: readonly string[], port = 0): Promise<void> {
    await this.server.listen(port)
    const ports = [{ name: 'http', protocol: 'TCP', port: this.server.port }]
    this.server.store.put('Service', apiService('kubernetes', '127.0.0.1', { ports }))
    this.setEndpoints(endpoints)
  }

  setEndpoints(endpoints: readonly string[]): void {
    this.server.store.put('EndpointSlice', apiSlice('kubernetes', 'kubernetes', endpoints))
  }

  /** Syncs pending events, and returns the real servers of the frontend. */
  async backends(): Promise<string> {
    await this.#pipeline.deliver(...this.#events.splice(0))
    const frontend = `tcp 127.0.0.1:${this.server.port} `
    const lines = await snapshot(this.#pipeline.kernel)
    return lines.find((line) => line.startsWith(frontend))?.slice(frontend.length) ?? 'no frontend'
  }
}

const one = 'rr 0 0 192.0.2.1:8080 masquerade 1'
let pipeline: PipelineLab
let cluster: Cluster

beforeEach(() => {
  pipeline = new PipelineLab()
  cluster = new Cluster(pipeline)
})
afterEach(async () => {
  await cluster.close()
  await pipeline.stop()
})

describe('the Service through which the agent reaches the API server', () => {
  it('keeps its last backends after a watch removed them, until the watch adds some', async () => {
    await cluster.listen(['192.0.2.1'])
    await cluster.open()
    assert.equal(await cluster.backends(), one)
    await cluster.untilFollowing()
    cluster.setEndpoints([])
    await cluster.untilLogged(/the last ones stay/u)
    assert.equal(await cluster.backends(), one)
    cluster.events.length = 0
    cluster.setEndpoints(['192.0.2.2'])
    await cluster.untilEvent('+EndpointSlice default/kubernetes')
    assert.match(await cluster.backends(), /192\.0\.2\.2:8080 masquerade 1/u)
  })

  it('keeps them if a list after an outage has no backends, or lacks the Service', async () => {
    await cluster.listen(['192.0.2.1'])
    await cluster.open()
    await cluster.untilFollowing()
    const { store, port } = cluster.server
    await cluster.breakLinks(() => cluster.server.close())
    store.remove('EndpointSlice', 'default/kubernetes')
    store.remove('Service', 'default/kubernetes')
    store.remove('Service', 'default/web')
    store.compact()
    await cluster.passUntil(cluster.clock.now() + delays.steady)
    await cluster.server.listen(port)
    await cluster.passUntilFollowing()
    await cluster.untilEvent('-Service default/web')
    await cluster.untilFollowing()
    assert.equal(await cluster.backends(), one)
  })

  it('keeps the backends of an earlier run in the kernel if the first list has none', async () => {
    await cluster.listen(['192.0.2.1'])
    await cluster.open()
    assert.equal(await cluster.backends(), one)
    const { port } = cluster.server
    await cluster.close()
    await pipeline.stop()
    pipeline = new PipelineLab({ kernel: pipeline.kernel })
    cluster = new Cluster(pipeline)
    await cluster.listen([], port)
    await cluster.open()
    assert.equal(cluster.events.at(-1), 'listed')
    assert.equal(await cluster.backends(), one)
    cluster.setEndpoints(['192.0.2.2'])
    await cluster.until(() => cluster.events.includes('synced'))
    assert.match(await cluster.backends(), /192\.0\.2\.2:8080 masquerade 1/u)
  })
})
