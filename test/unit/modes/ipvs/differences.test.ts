// Objects of a route that another program removed from the kernel.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { resolveConfig } from '../../../../src/config/index.js'
import { compileRoute } from '../../../../src/modes/ipvs/index.js'
import { differences } from '../../../../src/modes/ipvs/differences.js'
import { openModelKernel } from '../../../model/index.js'
import { backends, ip, plainRoute } from '../../../support/routes.js'

describe('the kernel against a route of ipvs mode', () => {
  it('lacks every virtual server and every set before the first sync', async () => {
    const { ipvs } = resolveConfig({ manifests: 'none' })
    const nodeIP = ip('192.168.60.11')
    const node = { nodePortAddresses: [nodeIP], nodeAddresses: new Set([nodeIP]), nodeIP }
    const settings = { ...ipvs, masqueradeMark: 0x4000, missing: new Set<string>(), ...node }
    const route = plainRoute({ clusterBackends: backends(8080, '10.1.0.1'), hasEndpoints: true })
    const [server = assert.fail()] = compileRoute(route, settings, undefined)
    const kernel = openModelKernel()
    const missing = await differences([server], kernel)
    const name = `-t ${route.clusterIP}:${route.port}`
    assert.deepEqual(missing, [
      `virtual server ${name} is missing`,
      'set KUBE-CLUSTER-IP is missing',
      'set KUBE-IPVS-IPS is missing',
    ])
    await kernel.ipvs.apply([
      { op: 'add-virtual-server', server: { key: server.key, settings: server.settings } },
    ])
    const [real] = await differences([server], kernel)
    assert.equal(real, `real server 10.1.0.1:8080 of virtual server ${name} is missing`)
    await kernel.close()
  })
})
