import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it, mock } from 'node:test'
import { apiService } from '../../../support/api-documents.js'
import { delays, KubernetesLab } from '../../../support/kubernetes-lab.js'

const jumps = [
  { name: 'a century ahead', unixMs: Date.UTC(2126, 0) },
  { name: 'back to 1970', unixMs: 0 },
  { name: 'an hour back', unixMs: Date.now() - 3_600_000 },
]

let lab: KubernetesLab

beforeEach(() => {
  mock.timers.enable({ apis: ['Date'], now: Date.now() })
  lab = new KubernetesLab()
})
afterEach(async () => {
  await lab.close()
  mock.timers.reset()
})

describe('a change of the system clock', () => {
  for (const { name, unixMs } of jumps) {
    it(`ends no watch, and changes no delay: ${name}`, async () => {
      await lab.start()
      await lab.untilFollowing()
      lab.clock.pass(6000)
      mock.timers.setTime(unixMs)
      lab.server.store.put('Service', apiService('a', '10.96.0.2'))
      await lab.untilEvent('+Service default/a 10.96.0.2')
      assert.equal(lab.server.openWatches, 3)
      lab.server.setFault('Service', { type: 'status', status: { code: 500 } })
      lab.server.endWatches('Service')
      for (const delayMs of [800, 1600, 3200]) {
        await lab.until(() => lab.clock.count(delayMs) === 1)
        mock.timers.setTime(unixMs)
        await lab.fire(delayMs)
      }
      await lab.until(() => lab.clock.count(6400) === 1)
      lab.server.setFault('Service', { type: 'silence' })
      await lab.fire(6400)
      await lab.fire(delays.answer)
      await lab.untilLogged(/no answer within 10 s/u)
      lab.server.setFault('Service', undefined)
      await lab.fire(12_800)
      await lab.untilFollowing()
    })
  }
})
