import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import { nearClients, SharedRelay } from '../../../../src/layers/relay/index.js'
import { openModelKernel } from '../../../model/index.js'
import { cidr, ip } from '../../../support/routes.js'

const machine = nearClients([ip('127.0.0.1'), ip('192.0.2.1')], { kind: 'cidr', cidr: cidr('10.244.1.0/24') })
const machine6 = nearClients([ip('2001:db8::1')], { kind: 'interface', name: 'cni0' })

function open() {
  const { relay } = openModelKernel()
  const texts = (): readonly string[] =>
    (relay.settings?.nearNetworks ?? []).map(({ address, prefixLength }) => `${address}/${prefixLength}`)
  return { relay, texts, shared: new SharedRelay(relay, { udpIdleMs: 250 }) }
}

describe('the relay that both families share', () => {
  it('knows the near clients of both families', async () => {
    const { relay, texts, shared } = open()
    await shared.configure('ipv6', { near: machine6, nodePortAddresses: [ip('2001:db8::1')] })
    await shared.configure('ipv4', { near: machine, nodePortAddresses: [ip('192.0.2.1')] })
    assert.deepEqual(texts(), ['127.0.0.0/8', '192.0.2.1/32', '10.244.1.0/24', '2001:db8::1/128'])
    assert.deepEqual([relay.settings?.nearInterfaces, relay.settings?.udpIdleMs], [['cni0'], 250])
    assert.deepEqual(relay.settings?.nodePortAddresses, ['192.0.2.1', '2001:db8::1'])
    await shared.configure('ipv6', { near: nearClients([], undefined), nodePortAddresses: [] })
    assert.deepEqual(texts(), ['127.0.0.0/8', '192.0.2.1/32', '10.244.1.0/24'])
  })

  it('configures the relay only for a change, and again after a failure', async () => {
    const { relay, shared } = open()
    let calls = 0
    let isBroken = true
    relay.batches.plan = {
      callFault: () => {
        calls++
        return isBroken ? constants.errno.ENOMEM : undefined
      },
    }
    await assert.rejects(shared.configure('ipv4', { near: machine, nodePortAddresses: [ip('192.0.2.1')] }), {
      code: 'ENOMEM',
    })
    isBroken = false
    await shared.configure('ipv4', { near: machine, nodePortAddresses: [ip('192.0.2.1')] })
    await shared.configure('ipv4', {
      near: nearClients([ip('127.0.0.1'), ip('192.0.2.1')], { kind: 'cidr', cidr: cidr('10.244.1.0/24') }),
      nodePortAddresses: [ip('192.0.2.1')],
    })
    assert.equal(calls, 2)
  })

  it('gives each service its own id', () => {
    const { shared } = open()
    assert.deepEqual([shared.nextId(), shared.nextId()], [1, 2])
  })
})
