// The machine's own addresses cannot be read for a while: what the last ones serve stays in force.
import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import { service, set, slice, synced } from '../support/objects.js'
import { ip, PipelineLab } from '../support/pipeline-lab.js'

const configs = [
  { mode: 'ipvs' },
  { mode: 'userspace' },
  { mode: 'iptables', nodePortAddresses: ['192.0.2.0/24'] },
  { mode: 'nftables', nodePortAddresses: ['192.0.2.0/24'] },
] as const

describe('while the addresses of the machine cannot be read', () => {
  for (const config of configs) {
    it(`${config.mode} mode serves a new Service, and reads them again`, async () => {
      const lab = new PipelineLab({ config })
      const { index: interfaceIndex } = await lab.kernel.links.addDummy('eth0')
      const addAddress = async (text: string): Promise<void> => {
        const address = { address: ip(text), prefixLength: 24, interfaceIndex }
        await lab.kernel.routes.apply([{ op: 'add-address', address }])
      }
      await addAddress('192.0.2.7')
      await lab.deliver(synced)
      let reads = 0
      lab.kernel.routes.batches.plan = {
        callFault: (call) => {
          if (call !== 'dumpAddresses') return undefined
          reads++
          return constants.errno.ENOMEM
        },
      }
      await addAddress('192.0.2.8')
      await lab.deliver(set(service('web', '10.96.0.1')), set(slice('web-1', 'web', ['10.1.0.1'])))
      const [pipeline] = lab.synchronizer.views
      const changed = pipeline?.passes.filter(({ changed: { count } }) => count > 0)
      assert.deepEqual(
        changed?.map(({ isComplete }) => isComplete),
        [true],
        'a reconcile of ipvs mode, which reads addresses as well, comes after the change',
      )
      assert.equal(lab.log.find('error', 'addresses of this machine').length, 1)
      const before = reads
      await lab.clock.advance(1000)
      assert.ok(reads > before)
      lab.kernel.routes.batches.plan = {}
      await lab.clock.advance(1000)
      assert.ok(lab.log.find('info', 'recovered').length > 0)
      assert.deepEqual(lab.crashes, [])
      await lab.stop()
    })
  }
})
