// Features of the model beyond the contract: injected faults and the log of requests.
import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import { parseIpAddress } from '../../../src/address.js'
import type { IpvsOp } from '../../../src/kernel/index.js'
import { openModelKernel } from '../../model/index.js'

const { EBUSY, ENOMEM, EPERM } = constants.errno

const address = parseIpAddress('10.96.0.10')
assert.ok(address !== undefined)
const key = { family: 'ipv4', protocol: 'tcp', address, port: 53 } as const
const settings = { scheduler: 'rr', flags: 0, timeoutSeconds: 0, netmaskLength: 32 }
const add: IpvsOp = { op: 'add-virtual-server', server: { key, settings } }
const remove: IpvsOp = { op: 'remove-virtual-server', server: key }

describe('faults of the model', () => {
  const faults = [
    { fault: EBUSY, code: 'EBUSY', unknown: false, isApplied: false },
    { fault: 'unknown', code: 'ENOBUFS', unknown: true, isApplied: true },
    { fault: 'lost', code: 'ENOBUFS', unknown: true, isApplied: false },
  ] as const
  for (const { fault, code, unknown, isApplied } of faults) {
    it(`${fault}: ${code}, ${isApplied ? 'applied' : 'not applied'}`, async () => {
      const { ipvs } = openModelKernel()
      ipvs.batches.plan = { fault: (op) => (op === add ? fault : undefined) }
      const outcome = await ipvs.apply([add, remove])
      assert.equal(outcome.applied, isApplied ? 1 : 0)
      const [first, second] = outcome.failures
      assert.deepEqual([first?.index, first?.error.code, first?.unknown], [0, code, unknown])
      assert.equal(first?.error.object, 'tcp 10.96.0.10:53')
      // The removal finds the server exactly when the addition was applied.
      assert.equal(second?.error.code, isApplied ? undefined : 'ESRCH')
    })
  }

  it('a failed call throws and changes nothing', async () => {
    const { ipvs, routes } = openModelKernel()
    ipvs.batches.plan = { callFault: (call) => (call === 'apply' ? ENOMEM : undefined) }
    await assert.rejects(ipvs.apply([add]), { code: 'ENOMEM', operation: 'apply' })
    assert.equal((await ipvs.dump('ipv4')).virtualServers.length, 0)
    routes.batches.plan = { callFault: (call) => (call === 'dumpLocalRoutes' ? EPERM : undefined) }
    await assert.rejects(routes.dumpLocalRoutes('ipv4'), { code: 'EPERM', subsystem: 'route' })
  })

  it('no dummy module: EOPNOTSUPP', async () => {
    const { links } = openModelKernel({ hasDummyModule: false })
    await assert.rejects(links.addDummy('kube-ipvs0'), { code: 'EOPNOTSUPP' })
  })

  it('a write of a sysctl may be refused', async () => {
    const { sysctl } = openModelKernel({ sysctls: { 'net/ipv4/ip_forward': '0' } })
    sysctl.fault = () => EPERM
    await assert.rejects(sysctl.write('net/ipv4/ip_forward', '1'), {
      code: 'EPERM',
      object: 'net/ipv4/ip_forward',
    })
    assert.deepEqual([await sysctl.read('net/ipv4/ip_forward'), sysctl.writes], ['0', 1])
  })
})

describe('the log of the model', () => {
  it('holds the operations in order and counts the batches, until it is taken', async () => {
    const { ipvs } = openModelKernel()
    await ipvs.apply([add])
    await ipvs.apply([])
    await ipvs.apply([add, remove])
    assert.deepEqual([ipvs.batches.ops, ipvs.batches.batches], [[add, add, remove], 2])
    assert.deepEqual(ipvs.batches.take(), [add, add, remove])
    assert.deepEqual([ipvs.batches.ops, ipvs.batches.batches], [[], 0])
  })
})
