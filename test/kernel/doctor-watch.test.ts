// viaduct doctor --watch: the problems that begin and end while it runs.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { requireFreshNamespace } from '../contract/fresh-namespace.js'
import { DoctorLab, sh } from '../support/doctor-lab.js'

requireFreshNamespace()

describe('viaduct doctor --watch', { timeout: 120_000 }, () => {
  const lab = new DoctorLab()

  it('prints each problem that begins or ends, and ends with the state of the last run', async () => {
    const watch = lab.watch({ flags: ['--interval=1'] })
    await watch.line((line) => line.startsWith('ok '))
    await sh('ip link add kube-dummy-if type bridge')
    try {
      await watch.line((line) => line.startsWith('broken   other-proxies: there is the link kube-dummy-if'))
    } finally {
      await sh('ip link delete kube-dummy-if')
    }
    await watch.line((line) => line.startsWith('ended    other-proxies: there is the link kube-dummy-if'))
    watch.signal('SIGINT')
    assert.equal((await watch.ended).code, 0)
    assert.equal(watch.lines.filter((line) => line.startsWith('ok ')).length, 1)
  })

  it('ends with 1 while something is broken', async () => {
    const watch = lab.watch({ master: 'http://127.0.0.1:9' })
    await watch.line((line) => line.startsWith('ok '))
    watch.signal('SIGINT')
    assert.equal((await watch.ended).code, 1)
  })
})
