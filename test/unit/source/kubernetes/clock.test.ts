import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it, mock } from 'node:test'
import { apiService } from '../../../support/api-documents.js'
import { delays, KubernetesLab } from '../../../support/kubernetes-lab.js'
import { treeRoot } from '../../../support/tree.js'

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

describe('a system clock that is set', () => {
  for (const { name, unixMs } of jumps) {
    it(`ends no watch, and changes no delay: ${name}`, async () => {
      await lab.start()
      await lab.untilFollowing()
      lab.timers.pass(6000)
      mock.timers.setTime(unixMs)
      lab.server.store.put('Service', apiService('a', '10.96.0.2'))
      await lab.untilEvent('+Service default/a 10.96.0.2')
      assert.equal(lab.server.openWatches, 3)
      lab.server.setFault('Service', { type: 'status', status: { code: 500 } })
      lab.server.endWatches('Service')
      for (const delayMs of [800, 1600, 3200]) {
        await lab.until(() => lab.timers.count(delayMs) === 1)
        mock.timers.setTime(unixMs)
        await lab.fire(delayMs)
      }
      await lab.until(() => lab.timers.count(6400) === 1)
      lab.server.setFault('Service', { type: 'silence' })
      await lab.fire(6400)
      await lab.fire(delays.answer)
      await lab.untilLogged(/no answer within 10 s/u)
      lab.server.setFault('Service', undefined)
      await lab.fire(12_800)
      await lab.untilFollowing()
    })
  }

  it('is looked at by nothing that waits', () => {
    const waits = [
      'backoff',
      'api/api-client',
      'api/idle-watchdog',
      'source/kubernetes/known-world',
      'source/kubernetes/kubernetes-source',
      'source/kubernetes/link-retry',
      'source/kubernetes/outage',
      'source/kubernetes/reflector',
    ]
    for (const name of waits) {
      const text = readFileSync(join(treeRoot, `src/${name}.ts`), 'utf8')
      assert.doesNotMatch(text, /\bDate\b|\bperformance\.|\bset(?:Timeout|Interval)\b/u, name)
    }
  })
})
