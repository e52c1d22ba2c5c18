// Sets on the kernel with more entries than kube-proxy's limit. A set grows while a rule uses it.
import assert from 'node:assert/strict'
import { createSocket, type Socket } from 'node:dgram'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import type { IpFamily } from '../../src/address.js'
import type { IpsetHeader, Kernel } from '../../src/kernel/index.js'
import { type DumpedSet } from '../../src/layers/ipvs/testing.js'
import {
  type DesiredSetEntry,
  IpsetTable,
  type SetKey,
  setName,
  setSpec,
} from '../../src/layers/ipvs/index.js'
import { requireFreshNamespace } from '../contract/fresh-namespace.js'
import { applyAll, ip } from '../contract/law.js'
import { openRealKernel } from '../contract/real-kernel.js'
import { mustRun } from '../support/processes.js'
import { cidr } from '../support/routes.js'

requireFreshNamespace()

/** The limit of a set that was created for few entries. */
const taken = 65_536
const all = 75_000
const port = 53

const networks = { ipv4: '10.96.0.0/12', ipv6: 'fd00:96::/32' } as const

function addressOf(family: IpFamily, index: number): string {
  const [high, low] = [index >> 8, index & 255]
  if (family === 'ipv6') return `fd00:96::${high.toString(16)}:${(low + 1).toString(16)}`
  return `10.${96 + (high >> 8)}.${high & 255}.${low}`
}

function frontends(family: IpFamily, first: number, end: number): readonly DesiredSetEntry[] {
  return Array.from({ length: end - first }, (_, index) => ({
    set: 'clusterIP',
    entry: { address: ip(addressOf(family, first + index)), protocol: 'udp', port },
  }))
}

async function adopt(table: IpsetTable, { ipset }: Kernel): Promise<readonly string[]> {
  const headers = new Map((await ipset.sets()).map((header) => [header.name, header]))
  const dumped = new Map<SetKey, DumpedSet>()
  for (const [key, name] of table.names) {
    const header = headers.get(name)
    if (header === undefined) continue
    const isOurs = header.type === setSpec(key).type
    dumped.set(key, { header, entries: isOurs ? await ipset.entries(name) : new Uint8Array() })
  }
  return [...table.adopt(dumped, { keepLeftovers: false })].map(([kind, count]) => `${kind} ${count}`)
}

/** Returns the applied operations, without those on entries. */
async function settle(table: IpsetTable, { ipset }: Kernel): Promise<readonly string[]> {
  const done: string[] = []
  for (const plan of [() => table.planSets(), () => table.planAdds(), () => table.planDeletes()]) {
    for (let batch = plan(); batch.ops.length > 0; batch = plan()) {
      table.confirm(batch, await ipset.apply(batch.ops))
      done.push(...batch.ops.filter((op) => !('entry' in op)).map(({ op }) => op))
    }
  }
  return done
}

/** Sends packets to entries of the set until `isDone`. Throws if the rule drops a packet. */
class Prober {
  sent = 0
  readonly errors: string[] = []
  readonly #family: IpFamily
  readonly #socket: Socket

  constructor(family: IpFamily) {
    this.#family = family
    this.#socket = createSocket(family === 'ipv4' ? 'udp4' : 'udp6')
  }

  send(index: number): Promise<string | undefined> {
    return new Promise((resolve) => {
      this.#socket.send('x', port, addressOf(this.#family, index), (error) => {
        resolve(error === null ? undefined : error.message)
      })
    })
  }

  async sendWhile(isGoingOn: () => boolean, entries: number): Promise<void> {
    while (isGoingOn()) {
      const error = await this.send((this.sent * 7919) % entries)
      if (error !== undefined) this.errors.push(error)
      this.sent++
      // The results of the thread that applies batches arrive through the event loop.
      if (this.sent % 16 === 0) await new Promise(setImmediate)
    }
  }

  close(): void {
    this.#socket.close()
  }
}

describe('sets of ipvs mode on the kernel', () => {
  let kernel: Kernel
  const folder = mkdtempSync(join(tmpdir(), 'viaduct-ipset-'))
  before(() => {
    process.env['XTABLES_LOCKFILE'] = join(folder, 'lock')
    kernel = openRealKernel()
  })
  after(async () => {
    await kernel.close()
    delete process.env['XTABLES_LOCKFILE']
    rmSync(folder, { recursive: true })
  })

  const headerOf = async (family: IpFamily): Promise<IpsetHeader | undefined> =>
    (await kernel.ipset.sets()).find(({ name }) => name === setName('clusterIP', family))

  /** Drops packets to the network that are not in the set. */
  const dropOthers = async (family: IpFamily): Promise<void> => {
    await mustRun([
      'ip',
      family === 'ipv4' ? '-4' : '-6',
      'route',
      'add',
      'local',
      networks[family],
      'dev',
      'lo',
    ])
    const set = { name: setName('clusterIP', family), directions: ['dst', 'dst'] } as const
    const { address, prefixLength } = cidr(networks[family])
    const outcome = await kernel.xtables(family, 'filter').apply([
      {
        op: 'set-hook',
        chain: 'OUTPUT',
        rules: [
          { set, target: { kind: 'accept' } },
          { protocol: 'udp', destination: { address, prefixLength }, target: { kind: 'drop' } },
        ],
      },
    ])
    assert.ok(outcome.isWritten)
  }

  for (const family of ['ipv4', 'ipv6'] as const) {
    it(`${family}: ${all} entries in a set that grows while a rule uses it`, async () => {
      const table = new IpsetTable(family, 0x107f)
      await adopt(table, kernel)
      table.want('first', frontends(family, 0, 1))
      await settle(table, kernel)
      table.want('some', frontends(family, 0, taken - 1000))
      assert.deepEqual(await settle(table, kernel), [])
      assert.equal((await headerOf(family))?.maxElements, taken)
      await dropOthers(family)
      const prober = new Prober(family)
      assert.equal(await prober.send(0), undefined)
      assert.match((await prober.send(all - 1)) ?? 'sent', /EPERM/, 'not in the set yet')

      table.want('rest', frontends(family, taken - 1000, all))
      let isGoingOn = true
      const growth = settle(table, kernel).finally(() => (isGoingOn = false))
      await prober.sendWhile(() => isGoingOn, taken - 1000)
      assert.deepEqual(await growth, ['destroy-set', 'create-set', 'swap-sets', 'destroy-set'])
      assert.deepEqual(prober.errors, [], `of ${prober.sent}`)
      assert.ok(prober.sent > 100)
      assert.equal(await prober.send(all - 1), undefined)
      prober.close()

      const header = await headerOf(family)
      assert.equal(header?.elements, all)
      assert.ok(header.references === 1 && header.maxElements >= 2 * all)
      assert.ok(table.isLike(await kernel.ipset.sets()))
      assert.equal(await ipsetSaveCount(setName('clusterIP', family)), all)
      assert.deepEqual(await adopt(table, kernel), [])
      assert.deepEqual(await settle(table, kernel), [])

      const restarted = new IpsetTable(family, 0x107f)
      await adopt(restarted, kernel)
      restarted.want('all', frontends(family, 0, all))
      assert.deepEqual(await settle(restarted, kernel), [])
      assert.deepEqual(await adopt(restarted, kernel), [])
      restarted.want('all', [])
      await settle(restarted, kernel)
      assert.equal((await headerOf(family))?.elements, 0)
    })
  }

  it('a foreign set that a foreign rule uses keeps its entries, and the other sets are created', async () => {
    await clear(kernel)
    await mustRun(['ipset', 'create', 'KUBE-LOAD-BALANCER', 'hash:ip'])
    await mustRun(['ipset', 'add', 'KUBE-LOAD-BALANCER', '192.0.2.1'])
    const rule = ['-m', 'set', '--match-set', 'KUBE-LOAD-BALANCER', 'dst', '-j', 'ACCEPT']
    await mustRun(['iptables-legacy', '-w', '10', '-A', 'INPUT', ...rule])
    const table = new IpsetTable('ipv4', 0x107f)
    await adopt(table, kernel)
    const entry = { address: ip('10.96.0.1'), protocol: 'tcp', port: 80 } as const
    table.want('a', [
      { set: 'loadBalancer', entry },
      { set: 'clusterIP', entry },
    ])
    await settle(table, kernel)
    assert.deepEqual(
      table.failedSets.map(({ name, failure }) => `${name} ${failure?.error.code}`),
      ['KUBE-LOAD-BALANCER EBUSY'],
    )
    assert.deepEqual([...table.gaps.unusable], ['loadBalancer'])
    assert.match(await mustRun(['ipset', 'save', 'KUBE-LOAD-BALANCER']), /hash:ip .*\nadd \S+ 192\.0\.2\.1$/u)
    assert.match(await mustRun(['ipset', 'save', 'KUBE-CLUSTER-IP']), /\nadd \S+ 10\.96\.0\.1,tcp:80$/u)
    assert.equal((await kernel.ipset.sets()).length, table.names.size)

    await mustRun(['iptables-legacy', '-w', '10', '-D', 'INPUT', ...rule])
    for (const set of table.failedSets) table.retry(set)
    await settle(table, kernel)
    assert.deepEqual(table.failedSets, [])
    assert.match(await mustRun(['ipset', 'save', 'KUBE-LOAD-BALANCER']), /\nadd \S+ 10\.96\.0\.1,tcp:80$/u)
  })
})

async function ipsetSaveCount(name: string): Promise<number> {
  return Number(await mustRun(['sh', '-c', `ipset save ${name} | grep -c ^add`]))
}

async function clear(kernel: Kernel): Promise<void> {
  const { ipset } = kernel
  for (const family of ['ipv4', 'ipv6'] as const)
    await kernel.xtables(family, 'filter').apply([{ op: 'set-hook', chain: 'OUTPUT', rules: [] }])
  await applyAll(
    ipset,
    (await ipset.sets()).map(({ name }) => ({ op: 'destroy-set', name }) as const),
  )
}
