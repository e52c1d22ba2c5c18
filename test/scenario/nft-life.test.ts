// nftables mode over time: first sync, changes, restarts, refusals.
import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import { schemaOf } from '../../src/layers/nft-table/testing.js'
import type { ObjectEvent } from '../../src/source/index.js'
import { openModelKernel } from '../model/index.js'
import { endpointsOf, find, NftModeLab, nftLines } from '../support/nft-mode-lab.js'
import { node, remove, service, set, slice, synced } from '../support/objects.js'
import { ip } from '../support/pipeline-lab.js'
import { cidr } from '../support/routes.js'

const listed: ObjectEvent = { type: 'listed' }
const web = [set(service('web', '10.96.0.1')), set(slice('web-1', 'web', ['10.1.0.1', '10.1.0.2']))]
const shop = [set(service('shop', '10.96.0.2')), set(slice('shop-1', 'shop', ['10.2.0.1']))]

async function started(...events: readonly ObjectEvent[]): Promise<NftModeLab> {
  const lab = new NftModeLab()
  await lab.deliver(...events, synced)
  return lab
}

function networks(...texts: readonly string[]): ObjectEvent {
  return set({ kind: 'ServiceCIDR', namespace: '', name: 'kubernetes', cidrs: texts.map(cidr) })
}

function rangesOf(lab: NftModeLab): readonly string[] {
  return find(lab, 'add element', ' service-cidrs ')
}

describe('nftables mode', () => {
  it('brings Services and their changes into the table, each change in one transaction', async () => {
    const lab = await started(...web, ...shop)
    assert.deepEqual(endpointsOf(lab, '10.96.0.1'), ['10.1.0.1', '10.1.0.2'])
    assert.deepEqual(endpointsOf(lab, '10.96.0.2'), ['10.2.0.1'])
    const { writes } = lab
    await lab.deliver(set(slice('web-1', 'web', ['10.1.0.1', '10.1.0.2', '10.1.0.3'])))
    assert.deepEqual(endpointsOf(lab, '10.96.0.1'), ['10.1.0.1', '10.1.0.2', '10.1.0.3'])
    await lab.deliver(remove('Service', 'shop'))
    assert.deepEqual(find(lab, '10.96.0.2'), [])
    assert.equal(lab.writes - writes, 2)
    await lab.stop()
  })

  it('is in force with what a fresh start would write, for any history', async () => {
    const lab = await started(...web)
    await lab.deliver(...shop, set(slice('web-1', 'web', [])))
    await lab.deliver(...web, remove('EndpointSlice', 'shop-1'), ...shop)
    const fresh = await started(...web, ...shop)
    assert.deepEqual(find(lab, 'add element'), find(fresh, 'add element'))
    await Promise.all([lab.stop(), fresh.stop()])
  })

  it('keeps everything in the kernel when it stops, and a restart writes nothing', async () => {
    const former = await started(...web, ...shop)
    await former.stop()
    const before = nftLines(former.namespace)
    const lab = new NftModeLab({ nftNamespace: former.namespace })
    await lab.deliver(...web, ...shop, synced)
    await lab.clock.advance(65_000)
    assert.deepEqual(lab.writtenSince(0), [])
    assert.deepEqual(nftLines(lab.namespace), before)
    assert.deepEqual(lab.log.find('info', 'Kernel state differs'), [])
    await lab.stop()
  })

  it('removes at a restart what went meanwhile', async () => {
    const former = await started(...web, ...shop)
    await former.stop()
    const lab = new NftModeLab({ nftNamespace: former.namespace })
    await lab.deliver(...web, synced)
    assert.deepEqual(find(lab, '10.96.0.2'), [])
    assert.deepEqual(endpointsOf(lab, '10.96.0.1'), ['10.1.0.1', '10.1.0.2'])
    await lab.stop()
  })

  it('removes nothing while some objects are unknown', async () => {
    const former = await started(...web, ...shop)
    await former.stop()
    const lab = new NftModeLab({ nftNamespace: former.namespace })
    await lab.deliver(...web.slice(0, 1), set(slice('web-1', 'web', ['10.1.0.9'])), listed)
    assert.deepEqual(endpointsOf(lab, '10.96.0.1'), ['10.1.0.9'])
    assert.deepEqual(endpointsOf(lab, '10.96.0.2'), ['10.2.0.1'])
    await lab.deliver(synced)
    assert.deepEqual(find(lab, '10.96.0.2'), [])
    await lab.stop()
  })

  it('records its first pass', async () => {
    const lab = await started(...web)
    const pipeline = lab.pipelines.get('ipv4')
    assert.ok(pipeline)
    assert.deepEqual(
      pipeline.passes.map(({ reason, isComplete }) => [reason, isComplete]),
      [['start', true]],
    )
    await lab.stop()
  })

  it('writes the addresses that serve node ports, as they come and go', async () => {
    const kernel = openModelKernel()
    const { index: interfaceIndex } = await kernel.links.addDummy('eth0')
    const address = { address: ip('192.0.2.7'), prefixLength: 24, interfaceIndex }
    const lab = new NftModeLab({ kernel, config: { nodePortAddresses: ['192.0.2.0/24'] } })
    await lab.deliver(...web, synced)
    const inKernel = (): number => find(lab, 'add element', ' nodeport-ips ', '192.0.2.7').length
    assert.equal(inKernel(), 0)
    await kernel.routes.apply([{ op: 'add-address', address }])
    await lab.clock.advance(0)
    assert.equal(inKernel(), 1)
    await kernel.routes.apply([{ op: 'remove-address', address }])
    await lab.clock.advance(0)
    assert.equal(inKernel(), 0)
    await lab.stop()
  })

  const cidrsListed: ObjectEvent = { type: 'service-cidrs-listed' }

  it('keeps the addresses that serve node ports when another one comes while the table is compared', async () => {
    const kernel = openModelKernel()
    const { index: interfaceIndex } = await kernel.links.addDummy('eth0')
    const addAddress = async (text: string): Promise<void> => {
      const address = { address: ip(text), prefixLength: 24, interfaceIndex }
      await kernel.routes.apply([{ op: 'add-address', address }])
    }
    await addAddress('192.0.2.7')
    const lab = new NftModeLab({ kernel, config: { nodePortAddresses: ['192.0.2.0/24'] } })
    await lab.deliver(...web, synced)
    await lab.clock.advance(1000)
    const { nftables } = kernel
    const dump = nftables.elementsOnce.bind(nftables)
    nftables.elementsOnce = async (...words) => {
      nftables.elementsOnce = dump
      await addAddress('192.0.2.8')
      await new Promise(setImmediate)
      return await dump(...words)
    }
    const apply = nftables.apply.bind(nftables)
    const removed: unknown[] = []
    nftables.apply = async (transaction, options) => {
      removed.push(
        ...transaction.filter((op) => op.op === 'delete-elements' && op.elements.set.set === 'nodeport-ips'),
      )
      return await apply(transaction, options)
    }
    await lab.asOther({ op: 'flush-set', set: schemaOf('ipv4').services.endpoints.endpointAt(0) })
    await lab.clock.advance(1000)
    assert.equal(find(lab, 'add element', ' nodeport-ips ', '192.0.2.8').length, 1)
    assert.deepEqual(removed, [])
    await lab.stop()
  })

  it('ServiceCIDRs take effect at once, those of its own family', async () => {
    const lab = await started(...web, networks('10.96.0.0/16'))
    assert.deepEqual(rangesOf(lab), [], 'not all are known')
    await lab.deliver(cidrsListed)
    assert.match(rangesOf(lab).join(), /10\.96\.0\.0/u)
    const { writes } = lab
    await lab.deliver(networks('10.96.0.0/12', 'fd00::/108'))
    assert.match(rangesOf(lab).join(), /10\.96\.0\.0-10\.111\.255\.255|10\.96\.0\.0\/12/u)
    assert.equal(nftLines(lab.namespace).filter((line) => line.includes('service-cidrs { fd00::')).length, 1)
    assert.equal(lab.writes - writes, 2, 'one for each family')
    await lab.deliver(remove('ServiceCIDR', 'kubernetes'))
    assert.deepEqual(rangesOf(lab), [])
    await lab.stop()
  })

  it('keeps the networks of a former run until all ServiceCIDRs are known', async () => {
    const former = await started(...web, networks('10.96.0.0/16'), cidrsListed)
    await former.stop()
    const before = nftLines(former.namespace)
    const lab = new NftModeLab({ nftNamespace: former.namespace })
    await lab.deliver(...web, synced)
    await lab.deliver(networks('10.96.0.0/16'), cidrsListed)
    assert.deepEqual(lab.writtenSince(0), [])
    assert.deepEqual(nftLines(lab.namespace), before)
    await lab.stop()
  })

  it("serves node ports on the Node's own address unless the configuration says more", async () => {
    const lab = new NftModeLab()
    const { index: interfaceIndex } = await lab.kernel.links.addDummy('eth0')
    for (const text of ['192.0.2.7', '198.51.100.7'])
      await lab.kernel.routes.apply([
        { op: 'add-address', address: { address: ip(text), prefixLength: 24, interfaceIndex } },
      ])
    await lab.deliver(set(node('here', { ips: ['192.0.2.7'] })), ...web, synced)
    assert.equal(find(lab, 'add element', ' nodeport-ips ').length, 1)
    assert.equal(find(lab, 'add element', ' nodeport-ips ', '192.0.2.7').length, 1)
    await lab.stop()
  })
})

/** Packets reach the rules of the mode. */
function isPublished(lab: NftModeLab): boolean {
  return find(lab, 'add rule', ' nat-prerouting ').length > 0
}

describe('a large first sync', () => {
  const names = Array.from({ length: 60 }, (_, i) => `s${i}`)
  const addresses = Array.from({ length: 1000 }, (_, i) => `10.9.${i >> 8}.${i & 255}`)
  const events = names.flatMap((name, i) => [
    set(service(name, `10.97.0.${i}`)),
    set(slice(`${name}-1`, name, addresses)),
  ])

  /** Number of IPv4 transactions of a sync. `stops`: the agent stops during the first one. */
  async function transactionsOf({ stops }: { readonly stops: boolean }): Promise<number> {
    const lab = new NftModeLab()
    const { nftables } = lab.kernel
    const apply = nftables.apply.bind(nftables)
    let count = 0
    nftables.apply = async (transaction, options) => {
      const [first] = transaction
      const isIpv4 = first !== undefined && 'table' in first ? first.table.family === 'ipv4' : true
      if (isIpv4) count++
      if (isIpv4 && stops) void lab.stop()
      return await apply(transaction, options)
    }
    await lab.deliver(...events, synced)
    await lab.clock.advance(1000)
    await lab.stop()
    assert.equal(isPublished(lab), !stops)
    return count
  }

  it('makes its elements serve with the last of some transactions', async () => {
    // Five with sets, chains and rules, 1,000 operations each, and eight with elements.
    assert.equal(await transactionsOf({ stops: false }), 13)
  })

  it('ends with the transaction in progress when the agent stops', async () => {
    assert.equal(await transactionsOf({ stops: true }), 1)
  })
})

/** The value of a metric for IPv4; 0 without one. */
async function metric(lab: NftModeLab, name: string): Promise<number> {
  const text = await lab.registry.metrics()
  const line = text.split('\n').find((each) => each.startsWith(`${name}{ip_family="IPv4"`))
  return Number(line?.split(' ').at(-1) ?? 0)
}

describe('what metrics count', () => {
  it('full and partial syncs, transactions, and objects', async () => {
    const lab = await started(...web)
    await lab.deliver(...shop)
    assert.equal(await metric(lab, 'kubeproxy_sync_full_proxy_rules_duration_seconds_count'), 1)
    assert.equal(await metric(lab, 'kubeproxy_sync_partial_proxy_rules_duration_seconds_count'), 1)
    assert.equal(await metric(lab, 'viaduct_nftables_transaction_seconds_count'), 2)
    assert.equal(await metric(lab, 'kubeproxy_sync_proxy_rules_nftables_sync_failures_total'), 0)
    assert.equal(await metric(lab, 'viaduct_ledger_objects'), 2)
    await lab.stop()
  })

  // They counted as partial syncs.
  it('the retries of a full sync as full syncs', async () => {
    const lab = new NftModeLab()
    lab.kernel.nftables.plan = { transactionFault: () => constants.errno.ENOMEM }
    await lab.deliver(...web, synced)
    await lab.clock.advance(10_000)
    lab.kernel.nftables.plan = {}
    await lab.clock.advance(31_000)
    assert.deepEqual(endpointsOf(lab, '10.96.0.1'), ['10.1.0.1', '10.1.0.2'])
    assert.ok((await metric(lab, 'kubeproxy_sync_full_proxy_rules_duration_seconds_count')) > 2)
    assert.equal(await metric(lab, 'kubeproxy_sync_partial_proxy_rules_duration_seconds_count'), 0)
    await lab.deliver(...shop)
    assert.equal(await metric(lab, 'kubeproxy_sync_partial_proxy_rules_duration_seconds_count'), 1)
    await lab.stop()
  })
})

describe('a kernel that refuses', () => {
  it('is asked again; health says so meanwhile', async () => {
    const lab = new NftModeLab()
    lab.kernel.nftables.plan = { transactionFault: () => constants.errno.ENOMEM }
    await lab.deliver(...web, synced)
    await lab.clock.advance(65_000)
    assert.deepEqual(
      lab.synchronizer.health.map(({ isHealthy }) => isHealthy),
      [false, false],
    )
    assert.ok((await metric(lab, 'kubeproxy_sync_proxy_rules_nftables_sync_failures_total')) > 2)
    lab.kernel.nftables.plan = {}
    await lab.clock.advance(31_000)
    assert.deepEqual(endpointsOf(lab, '10.96.0.1'), ['10.1.0.1', '10.1.0.2'])
    assert.deepEqual(
      lab.synchronizer.health.map(({ isHealthy }) => isHealthy),
      [true, true],
    )
    await lab.stop()
  })
})
