import assert from 'node:assert/strict'
import { afterEach, describe, it } from 'node:test'
import { apiServiceCidr } from '../../../support/api-documents.js'
import { jsonWriter, protobufWriter } from '../../../support/api-writer.js'
import type { FakeApiOptions } from '../../../support/fake-api-server.js'
import { KubernetesLab } from '../../../support/kubernetes-lab.js'

let lab: KubernetesLab

afterEach(async () => await lab.close())

const added = '+ServiceCIDR /kubernetes 10.96.0.0/16,fd00:96::/112'
const listed = 'service-cidrs-listed'
const retryMs = 300_000
const notThere =
  'ServiceCIDRs are not read; packets to unused cluster IPs may not be dropped: the API server has none (Kubernetes before 1.31, or the API is disabled)'
const notAllowed =
  'ServiceCIDRs are not read; packets to unused cluster IPs may not be dropped: the account may not list and watch servicecidrs of networking.k8s.io: bind it to the role system:node-proxier of Kubernetes 1.33'

/** Opens a source with all other objects delivered, and lets it follow ServiceCIDRs. */
async function follow(options: FakeApiOptions = {}): Promise<void> {
  lab = new KubernetesLab(options)
  lab.server.store.put('ServiceCIDR', apiServiceCidr('kubernetes', ['10.96.0.0/16', 'fd00:96::/112']))
  await lab.start()
  lab.events.splice(0)
  lab.followServiceCidrs()
}

function requests(): readonly string[] {
  return lab.server.requests.filter((request) => request.startsWith('ServiceCIDR'))
}

/** Lines of the log without the reason that the server gives. */
function lines(): readonly string[] {
  return lab.log
    .map((line) => line.replace(/ \(GET .*\)$/u, ''))
    .filter((line) => line.includes('ServiceCIDR'))
}

const refusal = { code: 403, reason: 'Forbidden', message: 'servicecidrs is forbidden' }

describe('KubernetesSource: ServiceCIDRs', () => {
  it('are not asked for unless they are wanted', async () => {
    lab = new KubernetesLab()
    await lab.start()
    await lab.untilFollowing()
    assert.deepEqual(requests(), [])
  })

  const served: readonly (readonly [name: string, options: FakeApiOptions])[] = [
    ['v1, protobuf', { writer: protobufWriter }],
    ['v1, JSON', { writer: jsonWriter }],
    ['v1, by pages', { streamedLists: 'old' }],
    ['v1beta1 where only that is served', { serviceCidrs: ['v1beta1'] }],
    ['v1beta1, JSON', { serviceCidrs: ['v1beta1'], writer: jsonWriter }],
  ]
  for (const [name, options] of served) {
    it(`are delivered and followed: ${name}`, async () => {
      await follow(options)
      assert.deepEqual(await lab.untilEvent(listed), [added, listed])
      lab.server.store.put('ServiceCIDR', apiServiceCidr('more', ['10.97.0.0/16']))
      assert.deepEqual(await lab.untilEvent('+ServiceCIDR /more 10.97.0.0/16'), [
        '+ServiceCIDR /more 10.97.0.0/16',
      ])
      lab.server.store.remove('ServiceCIDR', '/kubernetes')
      assert.deepEqual(await lab.untilEvent('-ServiceCIDR /kubernetes'), ['-ServiceCIDR /kubernetes'])
      assert.deepEqual(lines(), [])
    })
  }

  it('are listed when the list is whole: not after a part of a streamed list', async () => {
    lab = new KubernetesLab()
    const first = apiServiceCidr('kubernetes', ['10.96.0.0/16', 'fd00:96::/112'])
    for (const object of [first, apiServiceCidr('more', ['10.97.0.0/16'])])
      lab.server.store.put('ServiceCIDR', object)
    const bytes = protobufWriter.event('ADDED', 'ServiceCIDR', first)
    lab.server.setFault('ServiceCIDR', { type: 'stream', bytes }, 'watch')
    await lab.start()
    lab.events.splice(0)
    lab.followServiceCidrs()
    assert.deepEqual((await lab.untilEvent(listed)).slice(-2), ['+ServiceCIDR /more 10.97.0.0/16', listed])
  })

  it('are reported as missing once, and found after an upgrade of the API server', async () => {
    await follow({ serviceCidrs: [] })
    assert.deepEqual(await lab.untilEvent(listed), [listed])
    await lab.fire(retryMs)
    await lab.until(() => lab.clock.count(retryMs) === 1)
    assert.deepEqual(lines(), [notThere])
    lab.server.options = { serviceCidrs: ['v1'] }
    await lab.fire(retryMs)
    assert.deepEqual(await lab.untilEvent(added), [added])
    await lab.untilLogged(/^ServiceCIDRs are read$/u)
  })

  it('are reported as forbidden with the role to bind, and read when they are allowed', async () => {
    lab = new KubernetesLab()
    lab.server.store.put('ServiceCIDR', apiServiceCidr('kubernetes', ['10.96.0.0/16', 'fd00:96::/112']))
    lab.server.setFault('ServiceCIDR', { type: 'status', status: refusal })
    await lab.start()
    lab.events.splice(0)
    lab.followServiceCidrs()
    assert.deepEqual(await lab.untilEvent(listed), [listed])
    await lab.until(() => lab.clock.count(retryMs) === 1)
    assert.deepEqual([lines(), requests()], [[notAllowed], ['ServiceCIDR stream']])
    lab.server.setFault('ServiceCIDR', undefined)
    await lab.fire(retryMs)
    assert.deepEqual(await lab.untilEvent(added), [added])
  })

  it('are known from before when a right is lost: later the source delivers only the differences', async () => {
    await follow()
    await lab.untilEvent(listed)
    lab.server.setFault('ServiceCIDR', { type: 'status', status: refusal })
    await lab.until(() => lab.server.openWatches === 4)
    lab.server.endWatches('ServiceCIDR')
    await lab.fire(800)
    await lab.until(() => lab.clock.count(retryMs) === 1)
    assert.deepEqual(lab.events.splice(0), [])
    lab.server.store.remove('ServiceCIDR', '/kubernetes')
    lab.server.store.put('ServiceCIDR', apiServiceCidr('more', ['10.97.0.0/16']))
    lab.server.setFault('ServiceCIDR', undefined)
    await lab.fire(retryMs)
    assert.deepEqual(await lab.untilEvent('-ServiceCIDR /kubernetes'), [
      '+ServiceCIDR /more 10.97.0.0/16',
      '-ServiceCIDR /kubernetes',
    ])
  })

  it('that cannot be used are named by object and field', async () => {
    lab = new KubernetesLab()
    lab.server.store.put('ServiceCIDR', apiServiceCidr('odd', ['10.96.0.0']))
    await lab.start()
    lab.followServiceCidrs()
    await lab.untilLogged(/^object: ServiceCIDR odd: spec\.cidrs\[0\]: must be a network such as /u)
  })

  it('are not asked for after the end of the source', async () => {
    await follow({ serviceCidrs: [] })
    await lab.until(() => lab.clock.count(retryMs) === 1)
    await lab.stop()
    assert.equal(lab.clock.count(retryMs), 0)
  })
})
