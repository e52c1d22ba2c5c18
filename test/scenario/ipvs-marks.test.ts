import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { service, set, slice, synced } from '../support/objects.js'
import { PipelineLab } from '../support/pipeline-lab.js'

/** Two Services that want one load-balancer VIP, whose clients from outside are to meet endpoints of this node alone. */
function rival(name: string, clusterIP: string) {
  const balanced = {
    type: 'LoadBalancer',
    externalTrafficPolicy: 'Local',
    loadBalancerIngress: [{ ip: '198.51.100.1', ipMode: 'VIP' }],
  } as const
  return [set(service(name, clusterIP, balanced)), set(slice(`${name}-1`, name, ['10.1.0.1']))]
}

const winner = rival('a', '10.96.0.1')
const loser = rival('b', '10.96.0.2')

describe('the mark of a service port that lost its frontends to another one', () => {
  const orders = [
    ['the winner', [...winner, ...loser]],
    ['the loser', [...loser, ...winner]],
  ] as const
  for (const [first, objects] of orders) {
    it(`is its own after a restart that meets ${first} first`, async () => {
      const former = new PipelineLab()
      await former.deliver(...winner, ...loser, synced)
      await former.stop()
      const lab = new PipelineLab({ kernel: former.kernel })
      lab.takeOps()
      await lab.deliver(...objects, synced)
      assert.deepEqual(lab.takeOps(), [])
      await lab.stop()
    })
  }
})
