import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import { KernelError } from '../../src/errors.js'
import type { IpvsOp, LookWatch, VirtualServerKey } from '../../src/kernel/index.js'
import { port, service, set, slice, synced } from '../support/objects.js'
import { PipelineLab, ip, snapshot } from '../support/pipeline-lab.js'

const web = { family: 'ipv4', protocol: 'tcp', address: ip('10.96.0.1'), port: 80 } as const
const web6 = { family: 'ipv6', protocol: 'tcp', address: ip('fd00::1'), port: 80 } as const
const settings = { scheduler: 'rr', flags: 0, timeoutSeconds: 0, netmaskLength: 32 }
const plain = { weight: 1, forwarding: 'masquerade', upperThreshold: 0, lowerThreshold: 0 } as const
const addresses = ['10.96.0.1', 'fd00::1']

async function startedLab(): Promise<PipelineLab> {
  const lab = new PipelineLab()
  await lab.deliver(
    set(service('web', '10.96.0.1', { clusterIPs: addresses, ipFamilies: ['IPv4', 'IPv6'] })),
    set(slice('web-4', 'web', ['10.1.0.1'])),
    set(slice('web-6', 'web', ['fd01::1'])),
    synced,
  )
  await lab.clock.advance(500)
  return lab
}

function removal(server: VirtualServerKey): IpvsOp {
  return { op: 'remove-virtual-server', server }
}

function drained(server: VirtualServerKey, address: string): IpvsOp {
  const key = { address: ip(address), port: 8080 }
  return { op: 'set-real-server', server, real: { key, settings: { ...plain, weight: 0 } } }
}

/** Counts dumps of the IPVS table from now on. */
function countDumps({ kernel }: PipelineLab): () => number {
  let dumps = 0
  kernel.ipvs.batches.plan = {
    callFault: (call) => {
      if (call === 'dump') dumps++
      return undefined
    },
  }
  return () => dumps
}

describe('within a second', () => {
  const cases: readonly { readonly name: string; readonly by: readonly IpvsOp[]; readonly drift: object }[] =
    [
      { name: 'a flush of the IPv4 table', by: [removal(web)], drift: { 'virtual-server-missing': 1 } },
      { name: 'a flush of the IPv6 table', by: [removal(web6)], drift: { 'virtual-server-missing': 1 } },
      {
        name: 'a change of a weight',
        by: [drained(web, '10.1.0.1')],
        drift: { 'real-server-changed': 1 },
      },
      {
        name: 'a change of an IPv6 weight',
        by: [drained(web6, 'fd01::1')],
        drift: { 'real-server-changed': 1 },
      },
      {
        name: 'a change of a scheduler',
        by: [{ op: 'set-virtual-server', server: { key: web, settings: { ...settings, scheduler: 'lc' } } }],
        drift: { 'virtual-server-changed': 1 },
      },
      {
        name: 'a foreign virtual server on a VIP',
        by: [{ op: 'add-virtual-server', server: { key: { ...web, port: 443 }, settings } }],
        drift: { 'virtual-server-unexpected': 1 },
      },
    ]
  for (const { name, by, drift } of cases) {
    it(`${name} is noticed, repaired, counted and reported once`, async () => {
      const lab = await startedLab()
      const before = await snapshot(lab.kernel)
      await lab.kernel.ipvs.apply(by)
      await lab.clock.advance(1000)
      assert.deepEqual(await snapshot(lab.kernel), before)
      await lab.clock.advance(60_000)
      const lines = lab.log.find('info', 'Kernel state differs')
      assert.deepEqual(
        lines.map(({ fields }) => fields['drift']),
        [drift],
      )
      assert.match(
        await lab.registry.metrics(),
        new RegExp(`viaduct_drift_total\\{.*${Object.keys(drift)[0]}`),
      )
      await lab.stop()
    })
  }
})

it('a foreign virtual server causes one reconcile, and is then expected', async () => {
  const lab = await startedLab()
  await lab.kernel.ipvs.apply([
    { op: 'add-virtual-server', server: { key: { ...web, address: ip('192.0.2.1') }, settings } },
  ])
  const dumps = countDumps(lab)
  await lab.clock.advance(25_000)
  assert.equal(dumps(), 1)
  assert.equal(lab.log.find('info', 'Kernel state differs').length, 0)
  await lab.stop()
})

it('own changes are expected', async () => {
  const lab = await startedLab()
  await lab.deliver(set(service('shop', '10.96.0.2')), set(slice('shop-1', 'shop', ['10.1.0.3'])))
  const dumps = countDumps(lab)
  await lab.clock.advance(25_000)
  assert.equal(dumps(), 0)
  await lab.stop()
})

it('a foreign removal is noticed even if an own addition keeps the number of virtual servers', async () => {
  const lab = new PipelineLab()
  const many = Array.from({ length: 200 }, (_, i) => set(service(`s${i}`, `10.96.1.${i + 1}`)))
  await lab.deliver(...many, synced)
  await lab.clock.advance(1500)
  await lab.kernel.ipvs.apply([removal({ ...web, address: ip('10.96.1.150') })])
  await lab.deliver(set(service('web', '10.96.0.1')))
  await lab.clock.advance(1000)
  assert.equal((await lab.kernel.ipvs.info()).ipv4VirtualServers, 201)
  await lab.stop()
})

it('a virtual server in an excluded network causes no reconcile', async () => {
  const lab = new PipelineLab({ excludeCidrs: ['10.96.0.0/24'] })
  const ports = [port(80), port(443, { name: 'tls' })]
  await lab.deliver(set(service('web', '10.96.0.1', { ports })), synced)
  await lab.clock.advance(31_000)
  await lab.deliver(set(service('web', '10.96.0.1', { ports: ports.slice(0, 1) })))
  assert.equal((await lab.kernel.ipvs.info()).ipv4VirtualServers, 2)
  await lab.clock.advance(1500)
  lab.kernel.xtNamespace.table('ipv4', 'nat').addChain('FOREIGN')
  const dumps = countDumps(lab)
  await lab.clock.advance(20_000)
  assert.equal(dumps(), 0)
  await lab.stop()
})

describe('a large table', () => {
  const count = 38
  const cases = [
    { name: 'a virtual server in the current sample', index: 0, withinMs: 1000 },
    { name: 'a virtual server in a later sample', index: 20, withinMs: 13_000 },
    { name: 'a virtual server in the last sample', index: count - 1, withinMs: 23_000 },
  ]
  for (const { name, index, withinMs } of cases) {
    it(`${name}, and differs already`, async () => {
      const lab = new PipelineLab()
      const events = Array.from({ length: count }, (_, i) => [
        set(service(`s${i}`, `10.96.1.${i + 1}`)),
        set(slice(`s${i}-1`, `s${i}`, ['10.1.0.1'])),
      ])
      await lab.deliver(...events.flat(), synced)
      await lab.clock.advance(4500)
      const before = await snapshot(lab.kernel)
      await lab.kernel.ipvs.apply([drained({ ...web, address: ip(`10.96.1.${index + 1}`) }, '10.1.0.1')])
      await lab.clock.advance(withinMs)
      assert.deepEqual(await snapshot(lab.kernel), before)
      await lab.stop()
    })
  }
})

describe('a small family is watched while samples of a large family change', () => {
  for (const atMs of [9600, 9900, 10_100, 10_400, 10_600, 11_100]) {
    it(`a change after ${atMs} ms`, async () => {
      const lab = new PipelineLab()
      const many = Array.from({ length: 38 }, (_, i) => set(service(`s${i}`, `10.96.1.${i + 1}`)))
      const six = set(service('web', 'fd00::1', { clusterIPs: ['fd00::1'], ipFamilies: ['IPv6'] }))
      await lab.deliver(...many, six, set(slice('web-6', 'web', ['fd01::1'])), synced)
      await lab.clock.advance(atMs)
      const before = await snapshot(lab.kernel)
      await lab.kernel.ipvs.apply([drained(web6, 'fd01::1')])
      await lab.clock.advance(3000)
      assert.deepEqual(await snapshot(lab.kernel), before)
      await lab.stop()
    })
  }
})

it('a watch without findings causes no other calls', async () => {
  const lab = await startedLab()
  await lab.clock.advance(4000)
  const { ipvs, ipset } = lab.kernel
  const calls: string[] = []
  const callFault = (call: string): undefined => void calls.push(call)
  ipvs.batches.plan = { callFault }
  ipset.batches.plan = { callFault }
  for (const family of ['ipv4', 'ipv6'] as const)
    for (const table of ['nat', 'mangle', 'filter'] as const)
      lab.kernel.xtables(family, table).plan = { callFault }
  await lab.clock.advance(20_000)
  assert.deepEqual(calls, [])
  await lab.stop()
})

it('the first Service of an empty family is watched', async () => {
  const lab = new PipelineLab()
  await lab.deliver(synced)
  await lab.clock.advance(1500)
  await lab.deliver(set(service('web', '10.96.0.1')), set(slice('web-4', 'web', ['10.1.0.1'])))
  const before = await snapshot(lab.kernel)
  await lab.clock.advance(2000)
  await lab.kernel.ipvs.apply([drained(web, '10.1.0.1')])
  await lab.clock.advance(14_000)
  assert.deepEqual(await snapshot(lab.kernel), before)
  await lab.stop()
})

it('a family is watched even if the other one cannot be programmed', async () => {
  const lab = new PipelineLab()
  lab.kernel.xtables('ipv6', 'nat').plan = { callFault: () => constants.errno.ENOMEM }
  await lab.deliver(set(service('web', '10.96.0.1')), set(slice('web-4', 'web', ['10.1.0.1'])), synced)
  await lab.clock.advance(4500)
  const before = await snapshot(lab.kernel)
  await lab.kernel.ipvs.apply([drained(web, '10.1.0.1')])
  await lab.clock.advance(1000)
  assert.deepEqual(await snapshot(lab.kernel), before)
  await lab.stop()
})

it('a finding of the watch is kept while the kernel does not answer', async () => {
  const lab = await startedLab()
  await lab.clock.advance(4000)
  const before = await snapshot(lab.kernel)
  await lab.kernel.ipvs.apply([drained(web6, 'fd01::1')])
  const { batches } = lab.kernel.ipvs
  batches.plan = { callFault: (call) => (call === 'read' ? constants.errno.ENOBUFS : undefined) }
  await lab.clock.advance(2000)
  batches.plan = {}
  await lab.clock.advance(1000)
  assert.deepEqual(await snapshot(lab.kernel), before)
  await lab.stop()
})

describe('without a watch the agent looks at the kernel each second and logs one line:', () => {
  const error = new KernelError({
    errno: constants.errno.EMFILE,
    subsystem: 'xtables',
    operation: 'open socket',
  })
  const cases: readonly { readonly name: string; readonly watch: () => LookWatch }[] = [
    {
      name: 'the watch cannot be opened',
      watch: () => {
        throw error
      },
    },
    {
      name: 'the watch fails',
      watch: () => ({ next: () => Promise.reject(error), close: () => Promise.resolve() }),
    },
  ]
  for (const { name, watch } of cases) {
    it(name, async () => {
      const lab = new PipelineLab()
      lab.kernel.look(['ipv4', 'ipv6']).watch = watch
      await lab.deliver(set(service('web', '10.96.0.1')), set(slice('web-4', 'web', ['10.1.0.1'])), synced)
      await lab.clock.advance(2500)
      const before = await snapshot(lab.kernel)
      await lab.kernel.ipvs.apply([drained(web, '10.1.0.1')])
      await lab.clock.advance(1000)
      assert.deepEqual(await snapshot(lab.kernel), before)
      assert.equal(lab.log.find('warn', 'cannot be watched').length, 1)
      await lab.stop()
    })
  }
})

it('rules that another program replaces by rules of the same size are noticed within a second of its unlock (issue 18, C8)', async () => {
  const lab = await startedLab()
  await lab.clock.advance(4000)
  const { xtNamespace } = lab.kernel
  const tables = (['ipv4', 'ipv6'] as const).map((family) => xtNamespace.table(family, 'nat'))
  const saved = (): readonly string[] => tables.map((table) => table.save())
  const before = saved()
  for (const table of tables) {
    const rules = table.chains.get('KUBE-SERVICES') ?? []
    table.flush('KUBE-SERVICES')
    table.append('KUBE-SERVICES', ...rules.toReversed())
  }
  const changed = saved()
  assert.notDeepEqual(changed, before)
  await lab.clock.advance(10_000)
  assert.deepEqual(saved(), changed, 'nothing else differs')
  xtNamespace.unlocks++
  await lab.clock.advance(1000)
  assert.deepEqual(saved(), before)
  assert.equal(lab.log.find('info', 'Kernel state differs').length, 2)
  await lab.stop()
})

it('a flush of a set is noticed within a second', async () => {
  const lab = await startedLab()
  const { ipset } = lab.kernel
  const before = ipset.describe('KUBE-')
  await ipset.apply([{ op: 'flush-set', name: 'KUBE-CLUSTER-IP' }])
  await lab.clock.advance(1000)
  assert.equal(ipset.describe('KUBE-'), before)
  await lab.stop()
})

it('a kernel that does not answer the check affects nothing else', async () => {
  const lab = await startedLab()
  lab.kernel.ipvs.batches.plan = {
    callFault: (call) => (call === 'read' || call === 'info' ? constants.errno.ENOMEM : undefined),
  }
  await lab.clock.advance(5000)
  assert.deepEqual(lab.crashes, [])
  assert.deepEqual(lab.log.find('error', ''), [])
  await lab.stop()
})
