// The ipset tool prints the sets of Viaduct, and Viaduct reads sets of the tool.
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { listIpsets } from '../../src/inspect/index.js'
import { describeIpsetEntry, IpsetEntryCursor } from '../../src/kernel/index.js'
import type { IpsetEntry, IpsetOp, IpsetSettings, IpsetType, Kernel } from '../../src/kernel/index.js'
import { requireFreshNamespace } from '../contract/fresh-namespace.js'
import { applyAll, ip } from '../contract/law.js'
import { openRealKernel } from '../contract/real-kernel.js'
import { mustRun } from '../support/processes.js'

requireFreshNamespace()

const plain: IpsetSettings = {
  name: 'KUBE-CLUSTER-IP',
  type: 'hash:ip,port',
  family: 'ipv4',
  maxElements: 65_536,
  hashSize: 1024,
  hasMarks: false,
  hasComments: false,
}
const web: IpsetEntry = { address: ip('10.96.0.10'), protocol: 'tcp', port: 80 }
const web6: IpsetEntry = { address: ip('fd00:96::a'), protocol: 'tcp', port: 80 }
const inet = 'family inet hashsize 1024 maxelem 65536'
const inet6 = 'family inet6 hashsize 1024 maxelem 65536'

interface Example {
  readonly set: IpsetSettings
  readonly entries: readonly IpsetEntry[]
  /** Lines of `ipset save`. */
  readonly saved: readonly string[]
}

const examples: readonly Example[] = [
  {
    set: plain,
    entries: [web, { ...web, protocol: 'sctp', port: 9 }],
    saved: [`create NAME hash:ip,port ${inet}`, 'add NAME 10.96.0.10,sctp:9', 'add NAME 10.96.0.10,tcp:80'],
  },
  {
    set: { ...plain, name: 'KUBE-6-CLUSTER-IP', family: 'ipv6' },
    entries: [{ ...web6, protocol: 'udp' }],
    saved: [`create NAME hash:ip,port ${inet6}`, 'add NAME fd00:96::a,udp:80'],
  },
  {
    set: { ...plain, name: 'KUBE-LOOP-BACK', type: 'hash:ip,port,ip' },
    entries: [{ ...web, secondAddress: ip('10.244.1.5') }],
    saved: [`create NAME hash:ip,port,ip ${inet}`, 'add NAME 10.96.0.10,tcp:80,10.244.1.5'],
  },
  {
    set: { ...plain, name: 'KUBE-LOAD-BALANCER-SOURCE-CIDR', type: 'hash:ip,port,net' },
    entries: [
      { ...web, secondAddress: ip('198.51.100.0'), prefixLength: 24 },
      { ...web, secondAddress: ip('198.51.100.7'), prefixLength: 32 },
    ],
    saved: [
      `create NAME hash:ip,port,net ${inet}`,
      'add NAME 10.96.0.10,tcp:80,198.51.100.0/24',
      'add NAME 10.96.0.10,tcp:80,198.51.100.7',
    ],
  },
  {
    set: { ...plain, name: 'KUBE-6-LOAD-BALANCER-SOURCE-CID', type: 'hash:ip,port,net', family: 'ipv6' },
    entries: [{ ...web6, secondAddress: ip('fd00::'), prefixLength: 16 }],
    saved: [`create NAME hash:ip,port,net ${inet6}`, 'add NAME fd00:96::a,tcp:80,fd00::/16'],
  },
  {
    set: { ...plain, name: 'KUBE-NODE-PORT-TCP', type: 'bitmap:port' },
    entries: [{ port: 30_080 }, { port: 0 }],
    saved: ['create NAME bitmap:port range 0-65535', 'add NAME 0', 'add NAME 30080'],
  },
  {
    set: { ...plain, name: 'KUBE-IPVS-IPS', type: 'hash:ip' },
    entries: [{ address: ip('10.96.0.10') }],
    saved: [`create NAME hash:ip ${inet}`, 'add NAME 10.96.0.10'],
  },
  {
    set: { ...plain, name: 'NETWORKS', type: 'hash:net', hasComments: true },
    entries: [{ address: ip('10.0.0.0'), prefixLength: 8, comment: 'Größe: 8' }],
    saved: [`create NAME hash:net ${inet} comment`, 'add NAME 10.0.0.0/8 comment "Größe: 8"'],
  },
  {
    set: { ...plain, name: 'KUBE-MARKS', hasMarks: true, maxElements: 200_000, hashSize: 5000 },
    entries: [{ ...web, mark: { value: 0x2a, mask: 0x3fff } }],
    saved: [
      'create NAME hash:ip,port family inet hashsize 8192 maxelem 200000 skbinfo',
      'add NAME 10.96.0.10,tcp:80 skbmark 0x2a/0x3fff',
    ],
  },
]

/** `ipset save` of a set, sorted and without the hash seed and bucket size, which are random. */
async function save(name: string): Promise<readonly string[]> {
  const stdout = await mustRun(['ipset', 'save', name])
  const lines = stdout.split('\n').filter((line) => line !== '')
  const [create = '', ...entries] = lines.map((line) => line.replace(` ${name} `, ' NAME ').trimEnd())
  return [create.replace(/ bucketsize \d+| initval 0x[0-9a-f]+/gu, ''), ...entries.toSorted()]
}

describe('ipset', () => {
  let kernel: Kernel
  before(() => {
    kernel = openRealKernel()
  })
  after(() => kernel.close())

  const read = async (name: string, type: IpsetType): Promise<IpsetEntryCursor> =>
    new IpsetEntryCursor(await kernel.ipset.entries(name), type)

  /** The set in a bundle. It had neither skbinfo nor skbmark. It does not have the size of the hash, which is not read. */
  const listed = async (name: string): Promise<readonly string[]> => {
    const lines: string[] = []
    for await (const line of listIpsets(kernel))
      if (!line.startsWith('#')) lines.push(line.replace(` ${name} `, ' NAME '))
    const [create = '', ...added] = lines
    return [create, ...added.toSorted()]
  }

  for (const { set, entries, saved } of examples) {
    const { name, type } = set
    it(`the tool prints ${name} as created, and creates an equal set`, async () => {
      const create: IpsetOp = { op: 'create-set', set }
      await applyAll(kernel.ipset, [
        create,
        ...entries.map((entry): IpsetOp => ({ op: 'add-entry', set, entry })),
      ])
      assert.deepEqual(await save(name), saved)
      if (name.startsWith('KUBE-'))
        assert.deepEqual(
          await listed(name),
          saved.map((line) => line.replace(/ hashsize \d+/u, '')),
        )

      await mustRun(['ipset', 'destroy', name])
      for (const line of saved) await mustRun(['sh', '-c', `ipset ${line.replace('NAME', name)}`])
      await applyAll(kernel.ipset, [create])
      const cursor = await read(name, type)
      const keys = Array.from({ length: cursor.length }, (_, index) => cursor.key(index))
      assert.deepEqual(keys.toSorted(), entries.map(describeIpsetEntry).toSorted())
      await applyAll(kernel.ipset, [
        ...entries.map((entry): IpsetOp => ({ op: 'delete-entry', set, entry })),
        { op: 'destroy-set', name },
      ])
    })
  }

  it('entries with `nomatch` and with other protocols are listed and can be repaired', async () => {
    const set = { ...plain, name: 'FOREIGN', type: 'hash:ip,port,net' } as const
    const entry = { ...web, secondAddress: ip('10.0.0.0'), prefixLength: 8 }
    await applyAll(kernel.ipset, [{ op: 'create-set', set }])
    await mustRun(['ipset', 'add', set.name, '10.96.0.10,tcp:80,10.0.0.0/8', 'nomatch'])
    await mustRun(['ipset', 'add', set.name, '10.96.0.10,udplite:9,10.0.0.0/8'])
    const seen = await read(set.name, set.type)
    const lines = [0, 1].map((index) => `${seen.key(index)} ${seen.isException(index)}`)
    assert.deepEqual(lines.toSorted(), [
      '10.96.0.10,136:9,10.0.0.0/8 false',
      '10.96.0.10,tcp:80,10.0.0.0/8 true',
    ])
    await applyAll(kernel.ipset, [
      { op: 'add-entry', set, entry },
      { op: 'delete-entry', set, entry: { ...entry, protocol: 136, port: 9 } },
    ])
    assert.deepEqual((await save(set.name)).slice(1), ['add NAME 10.96.0.10,tcp:80,10.0.0.0/8'])
    await applyAll(kernel.ipset, [{ op: 'destroy-set', name: set.name }])
  })

  it('create-set refuses a set that the tool created with other settings', async () => {
    await mustRun(['ipset', 'create', plain.name, 'hash:ip,port', 'timeout', '60'])
    await mustRun(['ipset', 'create', 'LIST', 'list:set'])
    await mustRun(['ipset', 'add', 'LIST', plain.name])
    const headers = await kernel.ipset.sets()
    const shown = headers.map(({ name, type, references, maxElements }) => [
      name,
      type,
      references,
      maxElements,
    ])
    assert.deepEqual(shown, [
      [plain.name, 'hash:ip,port', 1, 65_536],
      ['LIST', 'list:set', 0, 0],
    ])
    const outcome = await kernel.ipset.apply([
      { op: 'create-set', set: plain },
      { op: 'destroy-set', name: plain.name },
      { op: 'destroy-set', name: 'LIST' },
      { op: 'destroy-set', name: plain.name },
    ])
    assert.deepEqual(
      outcome.failures.map(({ index, error }) => `${index} ${error.message}`),
      [
        `0 ipset: create-set ${plain.name} hash:ip,port: EEXIST`,
        `1 ipset: destroy-set ${plain.name}: EBUSY (a rule or another set refers to it, or it is being listed)`,
      ],
    )
  })
})
