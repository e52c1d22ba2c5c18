// A blank mode on a node that ipvs mode has served.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { reportFormerMode } from '../../src/agent/testing.js'
import { resolveConfig, type ConfigInput, type VipBinding } from '../../src/config/index.js'
import type { Mode } from '../../src/engine/index.js'
import { type ModelKernel, openModelKernel } from '../model/index.js'
import { service, set, slice, synced } from '../support/objects.js'
import { ip, MemoryLog, PipelineLab } from '../support/pipeline-lab.js'

const web = [set(service('web', '10.96.0.1')), set(slice('web-1', 'web', ['10.1.0.1']))]

/** A kernel in which ipvs mode has left its objects. */
async function afterIpvs(binding: VipBinding): Promise<ModelKernel> {
  const former = new PipelineLab({ config: { vipBinding: binding } })
  await former.deliver(...web, synced)
  await former.stop()
  return former.kernel
}

async function warnings(
  kernel: ModelKernel,
  name: Mode['name'],
  input: ConfigInput = {},
): Promise<readonly string[]> {
  const log = new MemoryLog()
  await reportFormerMode({ name }, { config: resolveConfig(input), kernel, log })
  return log.find('warn', '').map(({ message }) => message)
}

describe('a blank mode after ipvs mode', () => {
  for (const binding of ['routes', 'addresses'] as const) {
    // Before, nothing said that "blank" no longer means ipvs mode.
    it(`has a warning: VIPs by ${binding}`, async () => {
      const [text = '', ...others] = await warnings(await afterIpvs(binding), 'iptables')
      assert.match(
        text,
        /^Mode changes from ipvs to iptables, because mode is unset: 1 VIPs .* set mode: ipvs$/u,
      )
      assert.deepEqual(others, [])
    })
  }

  it('has none where a setting names the mode', async () => {
    const kernel = await afterIpvs('routes')
    assert.deepEqual(await warnings(kernel, 'iptables', { mode: 'iptables' }), [])
    assert.deepEqual(await warnings(kernel, 'iptables', { defaultMode: 'iptables' }), [])
  })

  it('has none on a node without VIPs, nor for a route of another program', async () => {
    const kernel = openModelKernel()
    assert.deepEqual(await warnings(kernel, 'iptables'), [])
    const route = { address: ip('203.0.113.5'), interfaceIndex: 1, protocol: 66 }
    await kernel.routes.apply([{ op: 'add-route', route }])
    assert.deepEqual(await warnings(kernel, 'iptables'), [])
  })
})
