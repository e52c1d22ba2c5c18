// The pages of the status page, on a recording pipeline.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { StatusPage } from '../../../src/page/index.js'
import type { PageRequest, Reply } from '../../../src/server/index.js'
import type { ManualClock } from '../../support/manual-clock.js'
import { endpoint, port, service, set, slice, synced } from '../../support/objects.js'
import { openSurroundings, openRecordingFamily } from '../../support/recording-family.js'
import type { ObjectEvent } from '../../../src/source/index.js'
import type { PresentProblem } from '../../../src/log.js'

const attack = '<img src=x onerror=alert(1)>"\'&'

interface Lab {
  readonly statusPage: StatusPage
  readonly clock: ManualClock
  readonly problems: PresentProblem[]
  apply(...events: readonly ObjectEvent[]): Promise<void>
  ask(path: string, request?: Partial<PageRequest>): Promise<Reply>
}

async function openLab(nodeName = 'node-a', failures: readonly string[] = []): Promise<Lab> {
  const surroundings = openSurroundings()
  const { clock, config, intake } = surroundings
  const pipeline = openRecordingFamily('ipv4', surroundings, { records: [] })
  intake.open(() => pipeline.needsRun())
  const problems: PresentProblem[] = []
  const runEnds = new Set<() => void>()
  const inspected = {
    config,
    mode: 'iptables',
    flavour: 'legacy',
    node: { facts: { ...surroundings.node.facts, name: nodeName }, isEligible: true },
    synchronizer: {
      views: [pipeline],
      get passes() {
        return pipeline.passes.map((pass) => ({ ...pass, failures }))
      },
      onRunEnd: (look: () => void) => {
        runEnds.add(look)
        return () => void runEnds.delete(look)
      },
    },
    machineAddresses: async () => [],
    routing: { lookUp: async () => [], links: async () => [], sysctl: async () => undefined },
    firewall: async () => [],
    flows: async () => ({ flows: [], total: 0 }),
    flowCounts: async () => [],
    problems: () => problems,
    metric: async (name: string) => [{ labels: { kind: name }, value: 2 }],
    startedMs: 0,
    clock,
  } as const
  const statusPage = new StatusPage({ inspected, clock })
  const lab: Lab = {
    statusPage,
    clock,
    problems,
    apply: async (...events) => {
      intake.deliver(events)
      await pipeline.runOnce()
      for (const look of runEnds) look()
    },
    ask: async (path, request = {}) => {
      const [plain = '', query = ''] = path.split('?')
      const page = statusPage.pages.get(plain)
      assert.ok(page !== undefined)
      return await page({
        method: 'GET',
        query: new URLSearchParams(query),
        accept: undefined,
        host: '127.0.0.1:10249',
        signal: new AbortController().signal,
        body: async () => '',
        ...request,
      })
    },
  }
  await lab.apply(synced)
  return lab
}

async function textOf(lab: Lab, path: string): Promise<string> {
  const { body, status } = await lab.ask(path)
  assert.equal(status, 200)
  assert.ok(typeof body === 'string')
  return body
}

describe('the status page', () => {
  it('escapes every text that it gets from objects, from the kernel and from the request', async () => {
    const lab = await openLab(`node${attack}`, [`refused ${attack}`])
    lab.problems.push({ level: 'error', line: `problem ${attack}`, fields: { service: `owner${attack}` } })
    const ports = [port(80, { name: `port${attack}` })]
    await lab.apply(
      set(service(`ns${attack}/web${attack}`, '10.96.0.1', { ports })),
      set(
        slice('web-a', `web${attack}`, [endpoint('10.244.1.1', { nodeName: `host${attack}` })], {
          namespace: `ns${attack}`,
          ports: [{ name: `port${attack}`, protocol: 'TCP', port: 8080 }],
        }),
      ),
    )
    const whole = await textOf(lab, '/ui')
    const searched = await textOf(lab, `/ui?${new URLSearchParams({ q: `search${attack}` }).toString()}`)
    const escaped = '&lt;img src=x onerror=alert(1)&gt;&quot;&#39;&amp;'
    for (const name of ['node', 'problem ', 'owner', 'refused ', 'ns', 'web', 'port', 'host'])
      assert.ok(whole.includes(name + escaped), name)
    assert.ok(searched.includes(`value="search${escaped}"`))
    for (const text of [whole, searched]) assert.ok(!text.includes('<img'))
  })

  it('finds Services by name, VIP and endpoint address, in pages of 50', async () => {
    const lab = await openLab()
    const numbers = Array.from({ length: 60 }, (_, index) => index + 1)
    await lab.apply(
      ...numbers.map((n) => set(service(`app-${n}`, `10.96.0.${n}`))),
      set(slice('a', 'app-7', ['10.244.1.1'])),
    )
    const cases = [
      ['', 50],
      ['page=2', 10],
      ['page=99', 10],
      ['page=-1', 50],
      ['page=x', 50],
      ['q=APP-6', 2],
      ['q=10.96.0.5', 11],
      ['q=10.244.1.1', 1],
      ['q=10.244.1', 0],
      // Addresses as the page shows them.
      ['q=10.96.0.5:80', 1],
      ['q=10.96.0.5:81', 0],
      ['q=10.244.1.1:8080', 1],
      ['q=10.244.1.1:81', 0],
      ['q=[fd00::5]:80', 0],
    ] as const
    for (const [query, count] of cases) {
      const rows = (await textOf(lab, `/ui?${query}`)).match(/<th scope="rowgroup"/g) ?? []
      assert.equal(rows.length, count, query)
    }
  })

  // Before, the list of names was up to 5 s old, and no later event made the page ask again.
  it('shows a new Service at once, and no deleted one', async () => {
    const lab = await openLab()
    await lab.apply(set(service('old', '10.96.0.1')))
    assert.match(await textOf(lab, '/ui'), /1 Service</)
    await lab.apply(set(service('new', '10.96.0.2')))
    assert.match(await textOf(lab, '/ui'), /2 Services<[^]*default\/new/)
  })

  it('shows a Service without addresses', async () => {
    const lab = await openLab()
    const ports = [port(80, { nodePort: 30080 })]
    await lab.apply(set(service('web', '', { clusterIPs: [], ports })))
    assert.match(
      await textOf(lab, '/ui'),
      /node port 30080<\/span>\s*<\/td>\s*<td><span class="note">none<\/span><\/td>/u,
    )
  })

  it('shows errors before warnings, with the objects that the sentence does not name', async () => {
    const lab = await openLab()
    const warnings = Array.from({ length: 30 }, (_, index) => ({
      level: 'warn' as const,
      line: `warning ${index}`,
      fields: {},
    }))
    lab.problems.push(...warnings, {
      level: 'error',
      line: 'an error of a.yaml',
      fields: { file: 'a.yaml', service: 'default/web' },
    })
    const page = await textOf(lab, '/ui')
    assert.match(
      page,
      /Problems: 31[^]*an error of a\.yaml\s+<p class="note">service: default\/web<\/p>[^]*warning 0/,
    )
  })

  // Before, a family's last 64 passes were read once in 30 s.
  it('counts all passes of the last hour, also when they follow each other quickly', async () => {
    const lab = await openLab()
    await lab.statusPage.start()
    await lab.clock.advance(1000)
    for (let pass = 0; pass < 100; pass++) {
      await lab.apply(set(service('web', `10.96.1.${pass}`)))
      await lab.clock.advance(250)
    }
    await lab.clock.advance(40_000)
    assert.match(await textOf(lab, '/ui'), /Last hour: 101 passes/)
    await lab.statusPage.stop()
  })

  // Before, it looked for new passes each second.
  it('wakes an agent at rest only at the end of a period of the plots', async () => {
    const lab = await openLab()
    await lab.statusPage.start()
    await lab.clock.advance(120_000)
    assert.equal(lab.clock.wakes, 4)
    await lab.statusPage.stop()
  })

  // Before, the plots of an idle agent stood still.
  it('sends an event at the end of each period of the plots', async () => {
    const lab = await openLab()
    await lab.statusPage.start()
    const gone = new AbortController()
    const { body } = await lab.ask('/ui/events', { signal: gone.signal })
    assert.ok(typeof body !== 'string')
    const events = body[Symbol.asyncIterator]()
    await events.next()
    const seen: unknown[] = []
    for (let second = 0; second < 35; second += 5) {
      const result = events.next()
      await lab.clock.advance(5000)
      seen.push((await result).value)
    }
    assert.equal(seen.filter((event) => event === 'event: change\ndata:\n\n').length, 1)
    gone.abort()
    await lab.statusPage.stop()
  })

  it('refuses other hosts and other methods, on every path', async () => {
    const lab = await openLab()
    for (const path of lab.statusPage.pages.keys()) {
      assert.equal((await lab.ask(path, { host: 'evil.example' })).status, 421, path)
      assert.equal((await lab.ask(path, { method: 'POST' })).status, 405, path)
      const { headers } = await lab.ask(path)
      assert.match(headers?.['Content-Security-Policy'] ?? '', /^default-src 'none'.*frame-ancestors 'none'$/)
    }
  })

  it('sends an event after a pass and after a change of problems, and a sign of life otherwise', async () => {
    const lab = await openLab()
    const gone = new AbortController()
    const { body } = await lab.ask('/ui/events', { signal: gone.signal })
    assert.ok(typeof body !== 'string')
    const events = body[Symbol.asyncIterator]()
    assert.equal((await events.next()).value, ': connected\n\n')
    const next = async (): Promise<unknown> => {
      const result = events.next()
      for (let second = 0; second < 5; second++) {
        await lab.clock.advance(1000)
      }
      return (await result).value
    }
    lab.problems.push({ level: 'warn', line: 'a problem', fields: {} })
    assert.equal(await next(), 'event: change\ndata:\n\n')
    assert.equal(await next(), 'event: alive\ndata:\n\n')
    await lab.apply(set(service('web', '10.96.0.1')))
    assert.equal(await next(), 'event: change\ndata:\n\n')
    const last = events.next()
    gone.abort()
    assert.equal((await last).done, true)
  })

  it('serves events to 16 clients, and to another one when a client has left', async () => {
    const lab = await openLab()
    const clients = Array.from({ length: 16 }, () => new AbortController())
    const streams = []
    for (const { signal } of clients) {
      const { body } = await lab.ask('/ui/events', { signal })
      assert.ok(typeof body !== 'string')
      const stream = body[Symbol.asyncIterator]()
      await stream.next()
      streams.push(stream)
    }
    assert.equal((await lab.ask('/ui/events')).status, 503)
    const end = streams[0]?.next()
    clients[0]?.abort()
    await end
    assert.equal((await lab.ask('/ui/events')).status, 200)
    for (const client of clients) client.abort()
  })

  // Before, eight could wait: after a change, eight of 16 clients got 503 and stayed out of date.
  it('makes one page at a time for all clients of the events and eight more, and refuses others', async () => {
    const lab = await openLab()
    const replies = Promise.all(Array.from({ length: 28 }, async () => await lab.ask('/ui')))
    for (let index = 0; index < 24; index++) await lab.clock.advance(50)
    const codes = (await replies).map(({ status }) => status)
    assert.deepEqual(
      [200, 503].map((code) => codes.filter((each) => each === code).length),
      [24, 4],
    )
    assert.equal((await lab.ask('/ui')).status, 200)
  })
})
