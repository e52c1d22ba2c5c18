// Firewall marks of Services with externalTrafficPolicy Local: their owners, and conflicts with other programs.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import {
  IpsetEntryCursor,
  type IpvsOp,
  RealServerCursor,
  VirtualServerCursor,
} from '../../src/kernel/index.js'
import { openModelKernel, type ModelKernel } from '../model/index.js'
import { cleanUp } from '../../src/modes/ipvs/testing.js'
import { servicePortKey } from '../../src/model/testing.js'
import { remove, service, set, slice, synced } from '../support/objects.js'
import { ip, PipelineLab } from '../support/pipeline-lab.js'

/** A Service of type LoadBalancer with policy Local. */
function local(name: string, clusterIP: string, balancerIP = '198.51.100.1', endpoint = '10.1.0.1') {
  return [balanced(name, clusterIP, balancerIP, 'Local'), set(slice(`${name}-1`, name, [endpoint]))]
}

function balanced(
  name: string,
  clusterIP: string,
  balancerIP: string,
  externalTrafficPolicy: 'Local' | 'Cluster',
) {
  const loadBalancerIngress = [{ ip: balancerIP, ipMode: 'VIP' }] as const
  return set(service(name, clusterIP, { type: 'LoadBalancer', externalTrafficPolicy, loadBalancerIngress }))
}

/** Marks of IPv4 virtual servers, with the numbers of their real servers. */
async function marksIn({ ipvs }: ModelKernel): Promise<ReadonlyMap<number, number>> {
  const servers = new VirtualServerCursor((await ipvs.dump('ipv4')).virtualServers)
  const rows = Array.from({ length: servers.length }, (_, index) => index)
    .filter((index) => servers.mark(index) !== 0)
    .map((index) => [servers.mark(index), servers.realCount(index)] as const)
  return new Map(rows.toSorted(([a], [b]) => a - b))
}

/** The marks that frontends have in the sets. */
async function leadsIn({ ipset }: ModelKernel): Promise<readonly number[]> {
  const cursor = new IpsetEntryCursor(await ipset.entries('KUBE-EXTERNAL-LOCAL-MARK'), 'hash:ip,port')
  return Array.from({ length: cursor.length }, (_, index) => cursor.entry(index).mark?.value ?? 0)
}

const masqueradeMark = 0x4000
const shop = local('shop', '10.96.0.1')

/** The mark that this Service chooses without a conflict. */
async function preferredMark(): Promise<number> {
  const lab = new PipelineLab()
  await lab.deliver(...shop, synced)
  const [mark = 0] = await leadsIn(lab.kernel)
  assert.deepEqual(
    [...(await marksIn(lab.kernel))],
    [
      [mark, 1],
      [mark + masqueradeMark, 1],
    ],
  )
  await lab.stop()
  return mark
}

const theirSettings = { scheduler: 'wrr', flags: 0, timeoutSeconds: 0, netmaskLength: 32 }
function theirs(mark: number): IpvsOp {
  return {
    op: 'add-virtual-server',
    server: { key: { family: 'ipv4', mark }, settings: theirSettings },
  }
}

/** Operations on virtual servers with these marks. */
function opsOn(lab: PipelineLab, ...marks: readonly number[]): readonly string[] {
  return lab.takeOps().filter((op) => marks.some((mark) => new RegExp(` mark ${mark}(?: |$)`, 'u').test(op)))
}

describe('a foreign virtual server with the mark that a Service would choose', () => {
  for (const bit of [0, masqueradeMark]) {
    const which = bit === 0 ? 'the mark' : 'the mark with the masquerade bit'
    it(`that exists at the start, with ${which}: the Service gets another mark, and the foreign server stays unchanged`, async () => {
      const taken = await preferredMark()
      const kernel = openModelKernel()
      await kernel.ipvs.apply([theirs(taken + bit)])
      const lab = new PipelineLab({ kernel })
      lab.takeOps()
      await lab.deliver(...shop, synced)
      const [mark = 0] = await leadsIn(kernel)
      assert.notEqual(mark, taken)
      assert.deepEqual(opsOn(lab, taken, taken + masqueradeMark), [])
      const marks = await marksIn(kernel)
      assert.equal(marks.get(taken + bit), 0)
      assert.deepEqual([marks.get(mark), marks.get(mark + masqueradeMark), marks.size], [1, 1, 3])
      assert.equal(lab.log.find('info', 'belongs to a foreign virtual server').length, 1)
      await lab.deliver(remove('Service', 'shop'))
      assert.deepEqual([...(await marksIn(kernel))], [[taken + bit, 0]])
      await lab.stop()
      await cleanUp(kernel, [])
      assert.deepEqual([...(await marksIn(kernel))], [[taken + bit, 0]])
    })
  }

  it('that is added after the read of the kernel: it gets no real servers, and the Service gets another mark at once', async () => {
    const taken = await preferredMark()
    const lab = new PipelineLab()
    await lab.deliver(synced)
    const { ipvs } = lab.kernel
    await ipvs.apply([theirs(taken)])
    lab.takeOps()
    await lab.deliver(...shop)
    assert.deepEqual(opsOn(lab, taken), [`add-virtual-server mark ${taken}`], 'refused: EEXIST')
    const [mark = 0, ...others] = await leadsIn(lab.kernel)
    assert.deepEqual(others, [])
    assert.notEqual(mark, taken)
    const marks = await marksIn(lab.kernel)
    assert.deepEqual([marks.get(taken), marks.get(mark), marks.get(mark + masqueradeMark)], [0, 1, 1])
    assert.equal(marks.size, 3)
    await lab.clock.advance(60_000)
    assert.equal((await marksIn(lab.kernel)).get(taken), 0)
    await lab.stop()
  })
})

it('a frontend gets its mark after the virtual servers of the mark have their real servers', async () => {
  const mark = await preferredMark()
  const lab = new PipelineLab()
  lab.takeOps()
  const before: string[] = []
  lab.kernel.ipset.batches.plan = {
    fault: (op) => {
      const isLead = op.op === 'add-entry' && op.set.name === 'KUBE-EXTERNAL-LOCAL-MARK'
      if (isLead) before.push(...lab.takeOps())
      return undefined
    },
  }
  await lab.deliver(...shop, synced)
  assert.deepEqual(
    before.toSorted(),
    [mark, mark + masqueradeMark]
      .flatMap((whole) => [`add-real-server mark ${whole} 10.1.0.1:8080`, `add-virtual-server mark ${whole}`])
      .toSorted(),
  )
  await lab.stop()
})

describe('marks over a restart', () => {
  it('a service port keeps its mark, and nothing is written', async () => {
    const former = new PipelineLab()
    await former.deliver(...shop, synced)
    await former.stop()
    const lab = new PipelineLab({ kernel: former.kernel })
    lab.takeOps()
    await lab.deliver(...shop, synced)
    assert.deepEqual(lab.takeOps(), [])
    await lab.stop()
  })

  it('with another mask the old marks are removed, and the new ones are within it', async () => {
    const former = new PipelineLab()
    await former.deliver(...shop, synced)
    await former.stop()
    const { kernel } = former
    const lab = new PipelineLab({ kernel, config: { ipvs: { markMask: 0x0fff_0000 } } })
    await lab.deliver(...shop, synced)
    const [mark = 0] = await leadsIn(kernel)
    assert.equal(mark & ~0x0fff_0000, 0)
    assert.deepEqual([...(await marksIn(kernel)).keys()], [mark, mark + masqueradeMark])
    await lab.stop()
  })

  const winner = local('a', '10.96.0.1')
  const loser = local('b', '10.96.0.2')
  const orders = [
    ['the winner', [...winner, ...loser]],
    ['the loser', [...loser, ...winner]],
  ] as const
  for (const [first, objects] of orders) {
    it(`a service port that lost its frontends keeps its mark, with ${first} first`, async () => {
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

describe('a mask with fewer marks than Services', () => {
  const config = { ipvs: { markMask: 0x1 } } as const
  const others = local('tea', '10.96.0.2', '198.51.100.2')

  it('the others are served as by kube-proxy, which is logged once; they get marks that become free', async () => {
    const lab = new PipelineLab({ config })
    await lab.deliver(...shop, ...others, ...local('pie', '10.96.0.3', '198.51.100.3'), synced)
    assert.deepEqual([...(await marksIn(lab.kernel)).keys()], [0x1, 0x4001])
    await lab.deliver(set(slice('shop-1', 'shop', ['10.1.0.2'])))
    const lines = lab.log.find('warn', 'all 1 marks of --ipvs-mark-mask 0x1 are taken')
    assert.deepEqual(
      lines.map(({ fields }) => fields['service']),
      ['default/tea'],
      'the first without a mark, also after a change of shop, which has one',
    )
    const servers = new VirtualServerCursor((await lab.kernel.ipvs.dump('ipv4')).virtualServers)
    const addresses = Array.from({ length: servers.length }, (_, index) => servers.address(index))
    for (const last of [1, 2, 3]) assert.ok(addresses.includes(ip(`198.51.100.${last}`)))

    await lab.deliver(remove('Service', 'shop'))
    assert.deepEqual([...(await marksIn(lab.kernel)).keys()], [0x1, 0x4001])
    assert.equal((await leadsIn(lab.kernel)).length, 1)
    await lab.deliver(remove('Service', 'pie'))
    assert.equal((await leadsIn(lab.kernel)).length, 1)
    assert.equal(lab.log.find('info', 'Service is programmed as specified now').length, 1)
    await lab.stop()
  })

  it('explain learns that a Service gets none, and not so of one that is not compiled', async () => {
    const lab = new PipelineLab({ config })
    await lab.deliver(...shop, ...others, synced)
    const marks = lab.pipelines.get('ipv4')?.packetRules()?.marks
    const answers = ['shop', 'tea', 'later'].map((name) =>
      marks?.of(servicePortKey(`default/${name}`, '/TCP')),
    )
    assert.deepEqual(answers, [0x1, 'all-taken', undefined])
    await lab.stop()
  })

  it('a mark gets the endpoints of its next Service only after no frontend of the former one has it', async () => {
    const tea = local('tea', '10.96.0.2', '198.51.100.2', '10.2.0.1')
    const lab = new PipelineLab({ config })
    await lab.deliver(...shop, ...tea, synced)
    assert.deepEqual(await leadsAndBackends(lab.kernel), ['198.51.100.1 -> 10.1.0.1'])
    const met = new Set<string>()
    const { ipvs } = lab.kernel
    const apply = ipvs.apply.bind(ipvs)
    ipvs.apply = async (ops) => {
      const outcome = await apply(ops)
      for (const line of await leadsAndBackends(lab.kernel)) met.add(line)
      return outcome
    }
    await lab.deliver(balanced('shop', '10.96.0.1', '198.51.100.1', 'Cluster'))
    assert.deepEqual(await leadsAndBackends(lab.kernel), ['198.51.100.2 -> 10.2.0.1'])
    assert.deepEqual([...met], [])
    await lab.stop()
  })
})

/** Each frontend with a mark, with each real server of the mark, as `ADDRESS -> REAL`. */
async function leadsAndBackends({ ipset, ipvs }: ModelKernel): Promise<readonly string[]> {
  const dump = await ipvs.dump('ipv4')
  const servers = new VirtualServerCursor(dump.virtualServers)
  const reals = new RealServerCursor(dump.realServers)
  const leads = new IpsetEntryCursor(await ipset.entries('KUBE-EXTERNAL-LOCAL-MARK'), 'hash:ip,port')
  const lines: string[] = []
  for (let i = 0; i < leads.length; i++) {
    const { address, mark } = leads.entry(i)
    for (let j = 0; j < servers.length; j++) {
      if (servers.mark(j) !== mark?.value) continue
      for (let k = 0; k < servers.realCount(j); k++)
        lines.push(`${address} -> ${reals.address(servers.firstReal(j) + k)}`)
    }
  }
  return lines
}
