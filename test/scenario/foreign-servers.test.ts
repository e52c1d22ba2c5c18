// Foreign virtual servers that resemble those of Viaduct are left alone.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { openModelKernel } from '../model/index.js'
import { cleanUp } from '../../src/modes/ipvs/testing.js'
import { port, service, set, slice, synced } from '../support/objects.js'
import { PipelineLab, ip, snapshot } from '../support/pipeline-lab.js'

const web = [
  set(service('web', '10.96.0.1', { type: 'NodePort', ports: [port(80, { nodePort: 30080 })] })),
  set(slice('web-1', 'web', ['10.1.0.1'])),
]
const settings = { scheduler: 'wrr', flags: 0, timeoutSeconds: 0, netmaskLength: 32 }
const theirs = { family: 'ipv4', protocol: 'tcp', address: ip('192.0.2.77'), port: 30080 } as const

describe('a foreign virtual server on the port of a node port, at a foreign address', () => {
  it('stays, while those at current and former addresses of the node are removed with their Service', async () => {
    const kernel = openModelKernel()
    const { index: interfaceIndex } = await kernel.links.addDummy('eth0')
    const own = ['192.0.2.7', '192.0.2.8'].map((text) => ({
      address: ip(text),
      prefixLength: 24,
      interfaceIndex,
    }))
    await kernel.routes.apply(own.map((address) => ({ op: 'add-address', address })))
    const first = new PipelineLab({ kernel })
    await first.deliver(...web, synced)
    await first.stop()
    await kernel.routes.apply(own.slice(1).map((address) => ({ op: 'remove-address', address })))
    await kernel.ipvs.apply([{ op: 'add-virtual-server', server: { key: theirs, settings } }])
    const left = async (): Promise<readonly string[]> =>
      (await snapshot(kernel)).filter((line) => line.includes(':30080'))
    assert.equal((await left()).length, 3)
    const next = new PipelineLab({ kernel })
    await next.deliver(...web, synced)
    assert.deepEqual(await left(), [
      'tcp 192.0.2.77:30080 wrr 0 0',
      'tcp 192.0.2.7:30080 rr 0 0 10.1.0.1:8080 masquerade 1',
    ])
    await next.stop()
    await cleanUp(kernel, [])
    assert.deepEqual(await left(), ['tcp 192.0.2.77:30080 wrr 0 0'])
  })
})
