import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { reportDefaultMode } from '../../../src/agent/default-mode.js'
import { resolveConfig, type ConfigInput } from '../../../src/config/index.js'
import type { EventReport } from '../../../src/event.js'
import { MemoryLog } from '../../support/pipeline-lab.js'

function reported(input: ConfigInput): {
  readonly warnings: number
  readonly events: readonly EventReport[]
} {
  const log = new MemoryLog()
  const events: EventReport[] = []
  reportDefaultMode(resolveConfig(input), {
    node: 'node-a',
    log,
    events: { record: (event) => void events.push(event) },
  })
  return { warnings: log.find('warn', 'mode is unset').length, events }
}

describe('a mode that nothing sets', () => {
  it('has one warning and the Event of kube-proxy 1.37', () => {
    const note =
      'mode is unset and means iptables; the default becomes nftables with kube-proxy 1.40: set mode, or defaultMode in ViaductConfiguration'
    assert.deepEqual(reported({}), {
      warnings: 1,
      events: [
        {
          type: 'Warning',
          reason: 'KubeProxyDefaultMode',
          action: 'StartKubeProxy',
          regarding: { apiVersion: 'v1', kind: 'Node', name: 'node-a' },
          note,
        },
      ],
    })
  })

  const pinned: readonly ConfigInput[] = [
    { mode: 'iptables' },
    { defaultMode: 'iptables' },
    { defaultMode: 'nftables' },
  ]
  for (const input of pinned) {
    it(`is silent with ${JSON.stringify(input)}`, () =>
      assert.deepEqual(reported(input), { warnings: 0, events: [] }))
  }
})
