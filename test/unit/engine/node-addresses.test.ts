import assert from 'node:assert/strict'
import { it } from 'node:test'
import { resolveConfig } from '../../../src/config/index.js'
import { NodeAddresses } from '../../../src/engine/testing.js'
import { NodeTracker } from '../../../src/node/index.js'
import { openModelKernel } from '../../model/index.js'
import { ip } from '../../support/routes.js'

it('keeps the last addresses until they are read again, and reads again after a change during a reading', async () => {
  const kernel = openModelKernel()
  const { index: interfaceIndex } = await kernel.links.addDummy('eth0')
  const addAddress = async (text: string): Promise<void> => {
    const address = { address: ip(text), prefixLength: 24, interfaceIndex }
    await kernel.routes.apply([{ op: 'add-address', address }])
  }
  await addAddress('192.0.2.7')
  const addresses = new NodeAddresses({
    family: 'ipv4',
    config: resolveConfig({ nodePortAddresses: ['192.0.2.0/24'] }),
    links: kernel.links,
    routes: kernel.routes,
    node: new NodeTracker('node-a'),
  })
  const changed = { kind: 'overrun' } as const
  await addresses.read()
  assert.deepEqual(addresses.last, [ip('127.0.0.1'), ip('192.0.2.7')])
  assert.equal(addresses.applyLinks([changed]), true)
  assert.deepEqual(addresses.last, [ip('127.0.0.1'), ip('192.0.2.7')])
  const reading = addresses.read()
  addresses.applyLinks([changed])
  await reading
  await addAddress('192.0.2.8')
  await addresses.read()
  assert.deepEqual(addresses.last, [ip('127.0.0.1'), ip('192.0.2.7'), ip('192.0.2.8')])
})

it('takes no notice of the VIPs on the device of ipvs mode', async () => {
  const kernel = openModelKernel()
  const eth = await kernel.links.addDummy('eth0')
  const dummy = await kernel.links.addDummy('kube-ipvs0')
  const addresses = new NodeAddresses({
    family: 'ipv4',
    config: resolveConfig({}),
    needsMachine: true,
    links: kernel.links,
    routes: kernel.routes,
    node: new NodeTracker('node-a'),
  })
  await addresses.read()
  const event = { kind: 'address', change: 'add', family: 'ipv4', address: ip('10.96.0.1') } as const
  assert.equal(addresses.applyLinks([{ ...event, index: dummy.index }]), false)
  assert.equal(addresses.isReadDue, false)
  assert.equal(addresses.applyLinks([{ ...event, index: eth.index }]), true)
  assert.equal(addresses.isReadDue, true)
})
