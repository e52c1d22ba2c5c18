// Issue 35, A1: of two Services with one node port and one health check port, each loss is reported once, in every mode. Before,
// iptables mode wrote two lines for the health check port, and the other modes did not count it in viaduct_frontend_conflicts.
import assert from 'node:assert/strict'
import { afterEach, describe, it } from 'node:test'
import type { ConfigInput } from '../../src/config/index.js'
import type { ObjectEvent, Service } from '../../src/source/index.js'
import { deliverApart, openConflictLab } from '../support/conflict-lab.js'
import { endpoint, port, remove, service, set, slice } from '../support/objects.js'
import type { PipelineLab } from '../support/pipeline-lab.js'

const modes: readonly { readonly mode: NonNullable<ConfigInput['mode']>; readonly flavour?: 'nft' }[] = [
  { mode: 'iptables' },
  { mode: 'iptables', flavour: 'nft' },
  { mode: 'ipvs' },
  { mode: 'ipvs', flavour: 'nft' },
  { mode: 'nftables' },
  { mode: 'userspace' },
]

function balancer(name: string, rest: Partial<Service> = {}): readonly ObjectEvent[] {
  const last = name === 'a' ? 1 : 2
  return [
    set(
      service(name, `10.96.0.${last}`, {
        type: 'LoadBalancer',
        externalTrafficPolicy: 'Local',
        healthCheckNodePort: 30_999,
        ports: [port(80, { nodePort: 30_080 })],
        ...rest,
      }),
    ),
    set(slice(name, name, [endpoint(`10.1.0.${last}`, { nodeName: 'here' })])),
  ]
}

/** In ipvs mode a node port is one virtual server for each address of the node. */
function lostNodePort(mode: string): string {
  const name = mode === 'ipvs' ? '192.0.2.1:30080' : 'node port 30080'
  return `Service port default/b:/TCP: tcp ${name} already belongs to default/a:/TCP, which sorts first`
}

const lostHealthCheck =
  'Service default/b: health check tcp node port 30999 already belongs to default/a, which sorts first'

async function conflicts({ registry }: PipelineLab): Promise<string | undefined> {
  return /^viaduct_frontend_conflicts\{ip_family="IPv4"\} (\d+)$/mu.exec(await registry.metrics())?.[1]
}

function owners({ healthChecks }: PipelineLab): readonly string[] {
  return [...healthChecks.checks.keys()]
}

function texts(lab: PipelineLab): readonly string[] {
  return lab.log.find('warn', 'already belongs to').map(({ message }) => message)
}

for (const { mode, flavour = 'legacy' } of modes)
  describe(`a health check port of two Services, ${mode} mode, flavour ${flavour}`, () => {
    const labs: PipelineLab[] = []
    afterEach(async () => {
      for (const lab of labs.splice(0)) await lab.stop()
    })

    async function open(...events: readonly ObjectEvent[]): Promise<PipelineLab> {
      const lab = await openConflictLab({ mode, flavour }, ...events)
      labs.push(lab)
      return lab
    }

    for (const order of ['a, b', 'b, a'])
      it(`has one line, one Event and one count, as the node port has, in the order ${order}`, async () => {
        const lab = await open(...order.split(', ').flatMap((name) => balancer(name)))
        const losses = [lostHealthCheck, lostNodePort(mode)]
        assert.deepEqual(
          texts(lab)
            .map((text) => text.replace(/^[^:]*: (?=Service)/u, ''))
            .toSorted(),
          losses,
        )
        assert.deepEqual(
          lab.events.map(({ reason, note }) => `${reason} ${note}`).toSorted(),
          losses.map((note) => `FrontendConflict ${note}`),
        )
        assert.equal(await conflicts(lab), '2')
        assert.deepEqual(owners(lab), ['default/a'])
      })

    it('goes to the loser when its owner is removed', async () => {
      const lab = await open(...balancer('a'), ...balancer('b'))
      await deliverApart(lab, remove('Service', 'a'))
      assert.equal(await conflicts(lab), '0')
      assert.deepEqual(owners(lab), ['default/b'])
      assert.equal(lab.log.find('info', 'Service is programmed as specified now').length, 2)
    })

    it('is lost when an older Service comes', async () => {
      const lab = await open(...balancer('a', { createdSeconds: 2 }))
      await deliverApart(lab, ...balancer('b', { createdSeconds: 1 }))
      assert.equal(await conflicts(lab), '2')
      assert.deepEqual(owners(lab), ['default/b'])
    })

    it('is one loss of all ports of a Service, until the last of them is removed', async () => {
      const lab = await open(...balancer('a'))
      const ports = [port(443, { name: 'x', nodePort: 30_443 }), port(8443, { name: 'y', nodePort: 30_843 })]
      await deliverApart(lab, ...balancer('b', { ports }))
      assert.equal(await conflicts(lab), '1')
      assert.equal(texts(lab).length, 1)
      await deliverApart(lab, ...balancer('b', { ports: ports.slice(1) }))
      assert.equal(await conflicts(lab), '1')
      await deliverApart(lab, remove('Service', 'b'))
      assert.equal(await conflicts(lab), '0')
      assert.equal(texts(lab).length, 1)
      assert.deepEqual(owners(lab), ['default/a'])
    })
  })
