import assert from 'node:assert/strict'
import { EventEmitter, once } from 'node:events'
import { describe, it } from 'node:test'
import { route } from '../../../../src/routing/index.js'
import { IptablesLab } from '../../../support/iptables-lab.js'
import { service, set, slice, synced } from '../../../support/objects.js'

describe('the differences of a route from the tables', () => {
  it('are not looked for while a run hands its write over, which leaves jumps to chains that do not exist yet', async () => {
    const lab = new IptablesLab()
    await lab.deliver(set(service('web', '10.96.0.1')), set(slice('a', 'web', ['10.0.0.1'])), synced)
    const pipeline = lab.pipelines.get('ipv4')
    const [port] = pipeline?.services.servicePorts() ?? []
    assert.ok(pipeline !== undefined && port !== undefined)
    const decided = route(port, pipeline.services.endpoints(port), lab.node.facts)
    const nat = lab.kernel.xtables('ipv4', 'nat')
    const { compare, apply } = { compare: nat.compare.bind(nat), apply: nat.apply.bind(nat) }
    const steps: string[] = []
    nat.compare = async () => {
      steps.push('compare')
      return await compare()
    }
    const gate = new EventEmitter()
    const opened = once(gate, 'open')
    nat.apply = async (ops, options) => {
      steps.push('write begins')
      await opened
      const result = await apply(ops, options)
      steps.push('write ends')
      return result
    }
    await lab.deliver(set(slice('a', 'web', ['10.0.0.2'])))
    assert.deepEqual(steps, ['write begins'])
    const asked = pipeline.differences(decided)
    gate.emit('open')
    await asked
    assert.deepEqual(steps, ['write begins', 'write ends', 'compare'])
    await lab.stop()
  })
})
