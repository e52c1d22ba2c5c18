// Services with a scheduler annotation, on a kernel that has the scheduler, lacks it, or loads it later.
import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import type { SchedulingAnnotations } from '../../../../src/source/index.js'
import { endpoint, port, remove, service, set, slice, synced } from '../../../support/objects.js'
import { PipelineLab, snapshot } from '../../../support/pipeline-lab.js'

const backends = [endpoint('10.1.0.1', { nodeName: 'node-a' }), endpoint('10.1.0.2', { nodeName: 'node-b' })]

function web(scheduling: SchedulingAnnotations) {
  return set(service('web', '10.96.0.1', { scheduling }))
}

async function started(scheduling: SchedulingAnnotations): Promise<PipelineLab> {
  const lab = new PipelineLab()
  await lab.deliver(web(scheduling), set(slice('s', 'web', backends)), synced)
  return lab
}

/** The virtual server of web, as a line. */
async function server(lab: PipelineLab): Promise<string> {
  const lines = await snapshot(lab.kernel)
  return lines.find((line) => line.startsWith('tcp 10.96.0.1:80')) ?? ''
}

function warnings(lab: PipelineLab): readonly string[] {
  return lab.log.find('warn', 'Service is not programmed as specified').map(({ message }) => message)
}

describe('a Service with scheduler annotations', () => {
  it('gets its scheduler, flags and weights; a change affects only its virtual server', async () => {
    const lab = await started({ scheduler: 'mh', weights: 'node-b=5' })
    assert.equal(
      await server(lab),
      'tcp 10.96.0.1:80 mh 16 0 10.1.0.1:8080 masquerade 1 10.1.0.2:8080 masquerade 5',
    )
    assert.deepEqual(warnings(lab), [])
    lab.takeOps()
    await lab.deliver(web({ scheduler: 'mh', schedulerFlags: 'mh-fallback', weights: 'node-a=2' }))
    assert.deepEqual(lab.takeOps(), [
      'set-virtual-server tcp 10.96.0.1:80',
      'set-real-server tcp 10.96.0.1:80 10.1.0.1:8080',
      'set-real-server tcp 10.96.0.1:80 10.1.0.2:8080',
    ])
    await lab.stop()
  })

  it('with errors gets the defaults and one warning; the scheduler is probed once', async () => {
    const lab = await started({ scheduler: 'nosuch', weights: 'node-a' })
    assert.match(await server(lab), /^tcp 10\.96\.0\.1:80 rr 0 0 .* masquerade 1$/)
    assert.deepEqual(warnings(lab), [
      'Service is not programmed as specified: Service default/web: viaduct.dev/ipvs-scheduler this kernel has no scheduler "nosuch": load the module ip_vs_nosuch; this Service uses rr; viaduct.dev/ipvs-weights must be written NODE=WEIGHT,OTHER=WEIGHT, each node once, with weights from 1 to 65535, not "node-a"; every backend weighs 1',
    ])
    lab.takeOps()
    await lab.deliver(set(slice('s', 'web', backends.slice(1))))
    assert.deepEqual(
      lab.takeOps().filter((op) => op.includes('198.51.100.0')),
      [],
    )
    await lab.deliver(web({}))
    assert.equal(lab.log.find('info', 'Service is programmed as specified now').length, 1)
    assert.equal(warnings(lab).length, 1)
    await lab.stop()
  })

  it('gets a scheduler whose module is loaded later', async () => {
    const lab = new PipelineLab()
    const { batches } = lab.kernel.ipvs
    const isMh = (op: (typeof batches.ops)[number]): boolean =>
      'server' in op && 'settings' in op.server && op.server.settings.scheduler === 'mh'
    batches.plan = { fault: (op) => (isMh(op) ? constants.errno.ENOENT : undefined) }
    await lab.deliver(web({ scheduler: 'mh' }), synced)
    assert.match(await server(lab), / rr 0 0/)
    batches.plan = {}
    await lab.clock.advance(30_000)
    assert.match(await server(lab), / mh 16 0/)
    assert.equal(lab.log.find('info', 'Service is programmed as specified now').length, 1)
    await lab.stop()
  })

  // Its virtual server was refused for ever: the scheduler counted as available until the Service changed.
  it('is served by the default if the kernel lacks the scheduler and refused the probe', async () => {
    const lab = new PipelineLab()
    const { batches } = lab.kernel.ipvs
    const isMh = (op: (typeof batches.ops)[number]): boolean =>
      'server' in op && 'settings' in op.server && op.server.settings.scheduler === 'mh'
    batches.plan = { fault: (op) => (isMh(op) ? constants.errno.EBUSY : undefined) }
    await lab.deliver(web({ scheduler: 'mh' }), synced)
    assert.equal(await server(lab), '')
    batches.plan = { fault: (op) => (isMh(op) ? constants.errno.ENOENT : undefined) }
    await lab.clock.advance(60_000)
    assert.match(await server(lab), / rr 0 0/)
    assert.equal(warnings(lab).length, 1)
    await lab.stop()
  })

  const ports = [port(80, { name: 'a' }), port(443, { name: 'b' })]
  const twoPorts = { ports, scheduling: { weights: 'node-a=2' } }
  const bothFamilies = {
    clusterIPs: ['10.96.0.1', 'fd00::1'],
    ipFamilies: ['IPv4', 'IPv6'],
    scheduling: { weights: 'node-a=2' },
  } as const
  // The warning was lost, and was written again at the next change of the others.
  const losses = [
    ['a port', twoPorts, { ...twoPorts, ports: ports.slice(1) }],
    ['its last port in a family', bothFamilies, { scheduling: bothFamilies.scheduling }],
  ] as const
  for (const [what, before, after] of losses) {
    it(`that loses ${what} keeps its warning until the request is met`, async () => {
      const lab = new PipelineLab()
      await lab.deliver(set(service('web', '10.96.0.1', before)), synced)
      await lab.deliver(set(service('web', '10.96.0.1', after)))
      await lab.deliver(set(slice('s', 'web', backends)))
      assert.equal(warnings(lab).length, 1)
      await lab.deliver(set(service('web', '10.96.0.1', { ...after, scheduling: {} })))
      assert.equal(lab.log.find('info', 'Service is programmed as specified now').length, 1)
      await lab.stop()
    })
  }

  it('gets no warning after its deletion', async () => {
    const lab = await started({ weights: 'node-a=2' })
    assert.equal(warnings(lab).length, 1, 'rr ignores weights')
    await lab.deliver(remove('Service', 'web'))
    await lab.deliver(web({ weights: 'node-a=2' }))
    assert.equal(warnings(lab).length, 2)
    await lab.stop()
  })
})
