import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { ObjectEvent } from '../../src/source/index.js'
import { remove, service, set, slice, synced } from '../support/objects.js'
import { PipelineLab, ip, snapshot } from '../support/pipeline-lab.js'

const listed: ObjectEvent = { type: 'listed' }
const web = [set(service('web', '10.96.0.1')), set(slice('web-1', 'web', ['10.1.0.1', '10.1.0.2']))]
const moreWeb = set(slice('web-2', 'web', ['10.1.0.3']))
const shop = [set(service('shop', '10.96.0.2')), set(slice('shop-1', 'shop', ['10.2.0.1']))]

/** A new run on the kernel of a former run. */
async function restarted(): Promise<PipelineLab> {
  const former = new PipelineLab()
  await former.deliver(...web, moreWeb, ...shop, synced)
  await former.stop()
  const lab = new PipelineLab({ kernel: former.kernel })
  lab.takeOps()
  return lab
}

describe('a restart while some objects cannot be read', () => {
  it('removes nothing that may belong to unknown objects', async () => {
    const lab = await restarted()
    const before = await snapshot(lab.kernel)
    await lab.deliver(...web, listed)
    assert.deepEqual(lab.takeOps(), [])
    assert.deepEqual(await snapshot(lab.kernel), before)
    await lab.stop()
  })

  it('applies every change of known objects', async () => {
    const lab = await restarted()
    await lab.deliver(...web, listed)
    await lab.deliver(set(slice('web-1', 'web', ['10.1.0.1', '10.1.0.9'])))
    assert.deepEqual(lab.takeOps(), [
      'add-real-server tcp 10.96.0.1:80 10.1.0.9:8080',
      'set-real-server tcp 10.96.0.1:80 10.1.0.2:8080',
    ])
    await lab.deliver(remove('Service', 'web'))
    assert.deepEqual(lab.takeOps().toSorted(), [
      'remove-route 10.96.0.1',
      'remove-virtual-server tcp 10.96.0.1:80',
    ])
    await lab.stop()
  })

  it('adds new objects', async () => {
    const lab = await restarted()
    await lab.deliver(...web, set(service('new', '10.96.0.7')), listed)
    assert.deepEqual(lab.takeOps(), ['add-virtual-server tcp 10.96.0.7:80', 'add-route 10.96.0.7'])
    await lab.stop()
  })

  it('repairs foreign removals of kept objects', async () => {
    const lab = await restarted()
    await lab.deliver(...web, listed)
    const before = await snapshot(lab.kernel)
    const key = { family: 'ipv4', protocol: 'tcp', address: ip('10.96.0.2'), port: 80 } as const
    await lab.kernel.ipvs.apply([{ op: 'remove-virtual-server', server: key }])
    await lab.clock.advance(30_000)
    assert.deepEqual(await snapshot(lab.kernel), before)
    await lab.stop()
  })

  it('writes nothing if the unknown objects are unchanged, and removes unwanted objects when all are known', async () => {
    const lab = await restarted()
    await lab.deliver(...web, listed)
    await lab.deliver(moreWeb)
    await lab.deliver(synced)
    assert.deepEqual(lab.takeOps().toSorted(), [
      'remove-route 10.96.0.2',
      'remove-virtual-server tcp 10.96.0.2:80',
    ])
    await lab.stop()
  })

  it('removes unwanted objects if all objects become known during the read of the kernel', async () => {
    const lab = await restarted()
    const { ipvs } = lab.kernel
    const dump = ipvs.dump.bind(ipvs)
    ipvs.dump = async (family) => {
      const read = await dump(family)
      ipvs.dump = dump
      lab.intake.deliver([synced])
      return read
    }
    await lab.deliver(...web, moreWeb, listed)
    assert.deepEqual(lab.takeOps().toSorted(), [
      'remove-route 10.96.0.2',
      'remove-virtual-server tcp 10.96.0.2:80',
    ])
    await lab.stop()
  })

  it('keeps objects that become known during the first apply', async () => {
    const lab = await restarted()
    const { ipvs } = lab.kernel
    const apply = ipvs.apply.bind(ipvs)
    ipvs.apply = async (ops) => {
      const outcome = await apply(ops)
      ipvs.apply = apply
      lab.intake.deliver([...shop, synced])
      return outcome
    }
    await lab.deliver(...web, moreWeb, set(service('new', '10.96.0.7')), listed)
    assert.deepEqual(lab.takeOps(), ['add-virtual-server tcp 10.96.0.7:80', 'add-route 10.96.0.7'])
    await lab.stop()
  })

  it('keeps objects that become known during the first decisions', async () => {
    const former = new PipelineLab()
    const many = Array.from({ length: 1000 }, (_, i) => set(service(`m${i}`, `10.97.${i >> 8}.${i & 255}`)))
    await former.deliver(...many, ...shop, synced)
    await former.stop()
    const lab = new PipelineLab({ kernel: former.kernel })
    lab.takeOps()
    const rest = [[...shop, synced]]
    // Each question for the time takes a millisecond, so that the decisions take several slices.
    const now = lab.clock.now.bind(lab.clock)
    let asked = 0
    lab.clock.now = () => now() + asked++
    lab.clock.pause = () => {
      const events = rest.pop()
      if (events !== undefined) lab.intake.deliver(events)
      return Promise.resolve()
    }
    await lab.deliver(...many, listed)
    assert.deepEqual(rest, [])
    assert.deepEqual(lab.takeOps(), [])
    await lab.stop()
  })
})

for (const mode of ['iptables', 'ipvs', 'nftables', 'userspace'] as const)
  it(`the health check of a known Service answers while other objects cannot be read, in ${mode} mode`, async () => {
    const lab = new PipelineLab({ config: { mode } })
    const balanced = {
      type: 'LoadBalancer',
      externalTrafficPolicy: 'Local',
      healthCheckNodePort: 32_000,
    } as const
    await lab.deliver(
      set(service('web', '10.96.0.1', balanced)),
      set(slice('web-1', 'web', ['10.1.0.1'])),
      listed,
    )
    await lab.clock.advance(1000)
    assert.deepEqual([...lab.healthChecks.checks.keys()], ['default/web'])
    await lab.stop()
  })
