// A set that the kernel refuses, or that is foreign, affects only its own entries.
import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import { ipsetErrno } from '../../src/errors.js'
import { describeIpsetEntry, IpsetEntryCursor, type IpsetOp, type XtRule } from '../../src/kernel/index.js'
import { openModelKernel, type ModelKernel } from '../model/index.js'
import { setKeys, setName, setSpec, type SetKey } from '../../src/layers/ipvs/index.js'
import { remove, service, set, slice, synced } from '../support/objects.js'
import { ip, PipelineLab, snapshot } from '../support/pipeline-lab.js'

const { EINVAL, ENOENT, ENOMEM } = constants.errno

const balanced = {
  type: 'LoadBalancer',
  externalTrafficPolicy: 'Local',
  healthCheckNodePort: 32_000,
  loadBalancerIngress: [{ ip: '198.51.100.1', ipMode: 'VIP' }],
} as const
const shop = [set(service('shop', '10.96.0.1', balanced)), set(slice('shop-1', 'shop', ['10.1.0.1']))]
const late = [set(service('late', '10.96.0.2')), set(slice('late-1', 'late', ['10.1.0.2']))]

/** With a detector every set has rules. */
const config = { detectLocalMode: 'ClusterCIDR', clusterCIDR: ['10.1.0.0/16'] } as const

const foreign = {
  name: 'KUBE-CLUSTER-IP',
  type: 'hash:ip',
  family: 'ipv4',
  maxElements: 100,
  hashSize: 64,
  hasMarks: false,
  hasComments: false,
} as const

async function entriesOf({ ipset }: ModelKernel, key: SetKey): Promise<readonly string[]> {
  const cursor = new IpsetEntryCursor(await ipset.entries(setName(key, 'ipv4')), setSpec(key).type)
  const entries = Array.from({ length: cursor.length }, (_, index) => cursor.entry(index))
  return entries.map(describeIpsetEntry).toSorted()
}

/** All IPv4 rules. */
function rulesOf({ xtNamespace }: ModelKernel): readonly XtRule[] {
  const tables = (['mangle', 'filter', 'nat'] as const).map((table) => xtNamespace.table('ipv4', table))
  return tables.flatMap(({ chains }) => [...chains.values()].flat())
}

function setsInRules(kernel: ModelKernel): ReadonlySet<string> {
  const names = rulesOf(kernel).map(({ set: match, target }) =>
    target.kind === 'map-mark' ? target.set.name : match?.name,
  )
  return new Set(names.filter((name) => name !== undefined))
}

function isRejecting(kernel: ModelKernel, key: SetKey): boolean {
  return rulesOf(kernel).some(
    (rule) => rule.target.kind === 'reject' && rule.set?.name === setName(key, 'ipv4'),
  )
}

/** Expects that all objects except those of the broken set are in the kernel, and that health checks are served. */
async function assertGoesOn(lab: PipelineLab, broken: SetKey): Promise<void> {
  const { kernel } = lab
  const servers = await snapshot(kernel)
  for (const server of ['tcp 10.96.0.1:80', 'tcp 198.51.100.1:80'])
    assert.ok(
      servers.some((line) => line.startsWith(server)),
      `${server} in ${servers.join('\n')}`,
    )
  const wanted: readonly (readonly [SetKey, readonly string[]])[] = [
    ['clusterIP', ['10.96.0.1,tcp:80']],
    ['loadBalancer', ['198.51.100.1,tcp:80']],
    ['vips', ['10.96.0.1', '198.51.100.1']],
  ]
  for (const [key, entries] of wanted)
    if (key !== broken) assert.deepEqual(await entriesOf(kernel, key), entries, key)
  for (const key of setKeys)
    assert.equal(setsInRules(kernel).has(setName(key, 'ipv4')), key !== broken && isWanted(lab, key), key)
  assert.equal(lab.healthChecks.checks.size, 1)
}

/** Whether rules should match the set. Only rules that refuse unknown ports of VIPs match `vips`. */
function isWanted({ kernel }: PipelineLab, key: SetKey): boolean {
  if (key === 'vips') return isRejecting(kernel, 'vips')
  return key !== 'marks'
}

const isRefused = (op: IpsetOp): boolean =>
  op.op === 'add-entry' && op.set.name === 'KUBE-CLUSTER-IP' && op.entry.address === ip('10.96.0.1')

async function assertWhole(lab: PipelineLab): Promise<void> {
  await assertGoesOn(lab, 'marks')
  assert.ok(isRejecting(lab.kernel, 'vips'))
  assert.equal(lab.log.find('info', 'Network programming recovered').length, 1)
}

describe('a set that the kernel refuses affects only its own entries', () => {
  it('a foreign set of another type is not changed, and is replaced when no rule refers to it', async () => {
    const kernel = openModelKernel()
    const { ipset } = kernel
    await ipset.apply([
      { op: 'create-set', set: foreign },
      { op: 'add-entry', set: foreign, entry: { address: ip('192.0.2.1') } },
    ])
    ipset.references.set(foreign.name, 1)
    ipset.batches.take()
    const lab = new PipelineLab({ kernel, config })
    await lab.deliver(...shop, synced)
    await assertGoesOn(lab, 'clusterIP')
    assert.ok(!isRejecting(kernel, 'vips'), 'the cluster IP would pass for a port without a Service')
    await lab.deliver(...late)
    await lab.clock.advance(40_000)
    const isWrite = (op: IpsetOp): boolean => 'entry' in op && op.set.name === foreign.name
    assert.deepEqual(ipset.batches.take().filter(isWrite), [])
    const cursor = new IpsetEntryCursor(await ipset.entries(foreign.name), 'hash:ip')
    assert.deepEqual([cursor.length, cursor.key(0)], [1, '192.0.2.1'])
    assert.deepEqual(await entriesOf(kernel, 'vips'), ['10.96.0.1', '10.96.0.2', '198.51.100.1'])
    assert.deepEqual(
      lab.log.find('error', '').map(({ message }) => message),
      [
        "Network programming failed: IPv4 set KUBE-CLUSTER-IP: another program's hash:ip has its name and cannot be removed, so its entries wait: ipset: destroy-set KUBE-CLUSTER-IP: EBUSY",
      ],
    )

    ipset.references.clear()
    await lab.clock.advance(1000)
    assert.deepEqual(await entriesOf(kernel, 'clusterIP'), ['10.96.0.1,tcp:80', '10.96.0.2,tcp:80'])
    assert.ok(setsInRules(kernel).has(foreign.name))
    assert.ok(isRejecting(kernel, 'vips'))
    assert.equal(lab.log.find('info', 'Network programming recovered').length, 1)
    await lab.stop()
  })

  for (const key of ['clusterIP', 'loadBalancer', 'marked', 'nodePortIPs'] as const) {
    it(`${setName(key, 'ipv4')} cannot be created, and is retried`, async () => {
      const kernel = openModelKernel()
      const { batches } = kernel.ipset
      batches.plan = {
        fault: (op) => (op.op === 'create-set' && op.set.name === setName(key, 'ipv4') ? ENOMEM : undefined),
      }
      const lab = new PipelineLab({ kernel, config })
      await lab.deliver(...shop, synced)
      await assertGoesOn(lab, key)
      await lab.clock.advance(10_000)
      const attempts = batches.take().filter(({ op }) => op === 'create-set')
      assert.equal(attempts.filter((op) => 'set' in op && op.set.name === setName(key, 'ipv4')).length, 4)
      const [line] = lab.log.find('error', '')
      assert.match(line?.message ?? '', new RegExp(`set ${setName(key, 'ipv4')}: it cannot be made.*ENOMEM`))
      assert.equal(lab.log.find('error', '').length, 1)

      batches.plan = {}
      await lab.clock.advance(30_000)
      await assertWhole(lab)
      await lab.stop()
    })
  }

  it('one entry is refused: the others are added', async () => {
    const kernel = openModelKernel()
    const { batches } = kernel.ipset
    batches.plan = { fault: (op) => (isRefused(op) ? ipsetErrno.IPSET_ERR_HASH_FULL : undefined) }
    const lab = new PipelineLab({ kernel, config })
    await lab.deliver(...shop, ...late, synced)
    assert.deepEqual(await entriesOf(kernel, 'clusterIP'), ['10.96.0.2,tcp:80'])
    assert.equal(lab.healthChecks.checks.size, 1)
    assert.ok(setsInRules(kernel).has('KUBE-CLUSTER-IP'))
    assert.ok(!isRejecting(kernel, 'vips'), 'the cluster IP would pass for a port without a Service')
    const [line] = lab.log.find('error', '')
    assert.match(
      line?.message ?? '',
      /set KUBE-CLUSTER-IP: 1 of its entries are refused: .*10\.96\.0\.1,tcp:80: IPSET_ERR_HASH_FULL/,
    )
    const refused = /viaduct_kernel_errors_total\{[^}]*code="IPSET_ERR_HASH_FULL"\} 1$/mu
    assert.match(await lab.registry.getSingleMetricAsString('viaduct_kernel_errors_total'), refused)
    batches.plan = {}
    await lab.clock.advance(2000)
    assert.deepEqual(await entriesOf(kernel, 'clusterIP'), ['10.96.0.1,tcp:80', '10.96.0.2,tcp:80'])
    assert.ok(isRejecting(kernel, 'vips'))
    await lab.stop()
  })

  it('ip_set was unloaded and loaded again: the sets are created again, regardless of the answers for entries', async () => {
    const lab = new PipelineLab({ config })
    const { ipset } = lab.kernel
    await lab.deliver(...shop, synced)
    await ipset.apply((await ipset.sets()).map(({ name }) => ({ op: 'destroy-set', name })))
    let isUnloaded = true
    ipset.batches.plan = {
      fault: ({ op }) => (isUnloaded && op === 'add-entry' ? EINVAL : undefined),
      callFault: (call) => {
        // A program that lists the sets loads the module.
        if (call === 'sets') isUnloaded = false
        return undefined
      },
    }
    ipset.batches.take()
    await lab.deliver(...late)
    const ops = ipset.batches.take().map(({ op }) => op)
    assert.equal(ops.filter((op) => op === 'create-set').length, setKeys.length, 'of one family')
    assert.deepEqual(await entriesOf(lab.kernel, 'clusterIP'), ['10.96.0.1,tcp:80', '10.96.0.2,tcp:80'])
    assert.deepEqual(lab.log.find('error', ''), [])
    await lab.stop()
  })

  // Pass followed pass without a rest, as the retry of the set stayed due.
  it('a set that must be read first waits for the reading, and is retried with back-off meanwhile', async () => {
    const lab = new PipelineLab({ config })
    const { batches } = lab.kernel.ipset
    let errno: number = ipsetErrno.IPSET_ERR_HASH_FULL
    batches.plan = { fault: (op) => (isRefused(op) ? errno : undefined) }
    await lab.deliver(...shop, synced)
    let runs = 0
    lab.synchronizer.onRunEnd(() => {
      if (++runs === 200) void lab.stop()
    })
    errno = EINVAL
    batches.plan = {
      ...batches.plan,
      callFault: (call) => (call === 'sets' ? ENOMEM : undefined),
    }
    await lab.clock.advance(5000)
    assert.ok(runs < 50, `${runs} runs in 5 s`)
    batches.plan = {}
    await lab.clock.advance(31_000)
    assert.deepEqual(await entriesOf(lab.kernel, 'clusterIP'), ['10.96.0.1,tcp:80'])
    await lab.stop()
  })

  it('rules that could not be compared because their sets were missing are written when the sets exist', async () => {
    const lab = new PipelineLab({ config })
    const { ipset } = lab.kernel
    await lab.deliver(...shop, synced)
    await ipset.apply((await ipset.sets()).map(({ name }) => ({ op: 'destroy-set', name })))
    let isMissing = true
    for (const table of ['mangle', 'filter', 'nat'] as const) {
      const xtables = lab.kernel.xtables('ipv4', table)
      for (const chain of xtables.kernel.chains.keys()) xtables.kernel.flush(chain)
      xtables.plan = { callFault: (call) => (isMissing && call === 'compare' ? ENOENT : undefined) }
    }
    await lab.clock.advance(1000)
    assert.ok((await ipset.sets()).length > 0)
    isMissing = false
    await lab.clock.advance(1000)
    await assertGoesOn(lab, 'marks')
    await lab.stop()
  })
})

it("kube-proxy's KUBE-LOOP-BACK is removed when no rule refers to it, and no foreign set is", async () => {
  const kernel = openModelKernel()
  const former = { ...foreign, name: 'KUBE-LOOP-BACK', type: 'hash:ip,port,ip' } as const
  const other = { ...foreign, name: 'OTHER' }
  await kernel.ipset.apply([former, other].map((one) => ({ op: 'create-set', set: one }) as const))
  const lab = new PipelineLab({ kernel, config })
  await lab.deliver(...shop, synced)
  const names = (await kernel.ipset.sets()).map(({ name }) => name)
  assert.deepEqual([names.includes(former.name), names.includes(other.name)], [false, true])
  await lab.stop()
})

// Such a set stayed until the next start.
it('KUBE-LOOP-BACK is removed after a foreign rule that refers to it is removed', async () => {
  const kernel = openModelKernel()
  const { ipset } = kernel
  const former = { ...foreign, name: 'KUBE-LOOP-BACK', type: 'hash:ip,port,ip' } as const
  await ipset.apply([{ op: 'create-set', set: former }])
  ipset.references.set(former.name, 1)
  const isPresent = async (): Promise<boolean> =>
    (await ipset.sets()).some(({ name }) => name === former.name)
  const lab = new PipelineLab({ kernel, config })
  await lab.deliver(...shop, synced)
  assert.ok(await isPresent())
  ipset.references.clear()
  await lab.deliver(...late)
  assert.equal(await isPresent(), false)
  assert.deepEqual(lab.log.find('error', ''), [])
  await lab.stop()
})

it('a route whose set entry was lost while no agent ran counts as ours if a Service needs it (issue 18, A1)', async () => {
  const former = new PipelineLab()
  const { kernel } = former
  await former.deliver(...late, synced)
  await former.stop()
  const header = { ...foreign, name: 'KUBE-IPVS-IPS' }
  await kernel.ipset.apply([{ op: 'delete-entry', set: header, entry: { address: ip('10.96.0.2') } }])
  const lab = new PipelineLab({ kernel })
  await lab.deliver(...late, synced)
  await lab.clock.advance(60_000)
  await lab.deliver(remove('Service', 'late'))
  assert.deepEqual(await snapshot(kernel), [])
  await lab.stop()
})

it('KUBE-IPVS-IPS keeps a VIP until it is unbound, because the entry shows that the route is ours (issue 18, A1)', async () => {
  const lab = new PipelineLab()
  const { kernel, clock } = lab
  await lab.deliver(...late, synced)
  kernel.routes.batches.plan = { fault: ({ op }) => (op === 'remove-route' ? ENOMEM : undefined) }
  await lab.deliver(remove('Service', 'late'))
  assert.deepEqual(await entriesOf(kernel, 'vips'), ['10.96.0.2'])
  kernel.routes.batches.plan = {}
  await clock.advance(2000)
  assert.deepEqual(await entriesOf(kernel, 'vips'), [])
  assert.deepEqual(await snapshot(kernel), [])
  await lab.stop()
})
