import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { openLog, StateReporter } from '../../../../src/log.js'
import { ApiClient } from '../../../../src/api/api-client.js'
import { Outage } from '../../../../src/source/kubernetes/outage.js'
import { Reflector } from '../../../../src/source/kubernetes/reflector.js'
import { resourcesOf } from '../../../../src/source/kubernetes/resources.js'
import { masterOptions } from '../../../../src/api/client-options.js'
import { apiNode } from '../../../support/api-documents.js'
import { FakeApiServer } from '../../../support/fake-api-server.js'
import { HandClock } from '../../../support/kubernetes-lab.js'
import { Backoff } from '../../../../src/clock.js'

describe('Reflector', () => {
  const server = new FakeApiServer()

  beforeEach(async () => await server.listen())
  afterEach(async () => await server.close())

  it('rejects with the error of its listener, which is not an error of the server', async () => {
    server.store.put('Node', apiNode('node-a'))
    const { signal } = new AbortController()
    const clock = new HandClock(() => undefined)
    const log = openLog({
      format: 'json',
      verbosity: 0,
      destination: { write: () => undefined },
      clock: { unixMs: () => 0 },
    })
    const reporter = new StateReporter({
      log,
      level: 'error',
      problemLine: '',
      recovery: '',
    })
    const resource = resourcesOf('node-a').find(({ kind }) => kind === 'Node')
    assert.ok(resource)
    const bug = new Error('a bug')
    const reflector = new Reflector({
      resource,
      client: new ApiClient(masterOptions(server.url.href), clock, signal),
      outage: new Outage({ clock, random: () => 0 }),
      clock,
      random: () => 0,
      log,
      problems: reporter,
      links: reporter,
      signal,
      deliver: () => {
        throw bug
      },
      progressed: () => undefined,
    })
    await assert.rejects(reflector.run(), bug)
    assert.equal(clock.armed, 0)
  })
})

describe('Backoff', () => {
  const rows = [
    { random: 0, expected: [800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000] },
    { random: 0.5, expected: [1200, 2400, 4800, 9600, 19_200, 30_000, 30_000, 30_000] },
  ]
  for (const { random, expected } of rows) {
    it(`grows from 0.8 s to 30 s, and starts again, with random number ${random}`, () => {
      const backoff = new Backoff({ random: () => random, shortestMs: 800, longestMs: 30_000 })
      assert.deepEqual(
        expected.map(() => backoff.next()),
        expected,
      )
      backoff.reset()
      assert.equal(backoff.next(), expected[0])
    })
  }
})
