// Each mode removes the chains of other modes, of the other flavour and of kube-proxy, and keeps its own.
import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import { openHousekeeping } from '../../../src/agent/testing.js'
import { type ConfigInput, resolveConfig } from '../../../src/config/index.js'
import type { Mode } from '../../../src/engine/index.js'
import type { XtOp } from '../../../src/kernel/index.js'
import { NodeTracker } from '../../../src/node/index.js'
import { type ModelKernel, openModelKernel } from '../../model/index.js'
import { noFiles } from '../../support/no-files.js'
import { MemoryLog } from '../../support/pipeline-lab.js'

const config = resolveConfig({ manifests: 'm' })
const node = new NodeTracker('node-a')

const tables = ['legacy nat', 'legacy mangle', 'nft nat', 'nft mangle', 'kube-proxy'] as const
type Place = (typeof tables)[number]

/** A chain of kube-proxy and one of another program, with their jumps. */
const ops = (chain: string): readonly XtOp[] => [
  { op: 'set-chain', chain, rules: [] },
  { op: 'set-chain', chain: 'MINE', rules: [] },
  {
    op: 'set-hook',
    chain: 'OUTPUT',
    rules: [{ target: { kind: 'jump', chain } }, { target: { kind: 'jump', chain: 'MINE' } }],
  },
]

/** The chains of kube-proxy, and chains of other programs, everywhere. */
async function kernelWithAll(): Promise<ModelKernel> {
  const former = openModelKernel()
  for (const flavour of ['legacy', 'nft'] as const) {
    await former.xtables('ipv4', 'nat', flavour).apply(ops('KUBE-SERVICES'))
    await former.xtables('ipv4', 'mangle', flavour).apply(ops('KUBE-IPVS-IN'))
  }
  const table = { family: 'ipv4', table: 'kube-proxy' } as const
  await former.nftables.apply([{ op: 'add-table', table }])
  return openModelKernel({ xtNamespace: former.xtNamespace, nftNamespace: former.nftables.namespace })
}

async function placesOfKubeProxy(kernel: ModelKernel): Promise<readonly Place[]> {
  const found: Place[] = []
  for (const flavour of ['legacy', 'nft'] as const)
    for (const table of ['nat', 'mangle'] as const) {
      const chains = await kernel.xtables('ipv4', table, flavour).chains()
      assert.ok(chains.some(({ chain }) => chain === 'MINE'))
      if (chains.some(({ chain }) => chain.startsWith('KUBE-'))) found.push(`${flavour} ${table}`)
    }
  if (kernel.nftables.namespace.tables.ipv4.has('kube-proxy')) found.push('kube-proxy')
  return found
}

describe('the leftovers of other modes and flavours', () => {
  const cases: readonly {
    readonly mode: Pick<Mode, 'name' | 'flavour'>
    /** A mode removes the former chains of nat and filter in its own flavour by its own first write. */
    readonly kept: readonly Place[]
  }[] = [
    { mode: { name: 'iptables', flavour: 'legacy' }, kept: ['legacy nat'] },
    { mode: { name: 'iptables', flavour: 'nft' }, kept: ['nft nat', 'kube-proxy'] },
    { mode: { name: 'ipvs', flavour: 'legacy' }, kept: [] },
    { mode: { name: 'ipvs', flavour: 'nft' }, kept: [] },
    { mode: { name: 'nftables' }, kept: ['kube-proxy'] },
  ]
  for (const { mode, kept } of cases) {
    it(`of ${mode.name} mode ${mode.flavour ?? ''}: ${kept.join(', ') || 'nothing'} stays`, async () => {
      const kernel = await kernelWithAll()
      assert.deepEqual(await placesOfKubeProxy(kernel), tables)
      const log = new MemoryLog()
      await openHousekeeping(
        { ...mode, families: ['ipv4'] },
        { kernel, log, config, node, savedFiles: noFiles },
      )()
      assert.deepEqual(await placesOfKubeProxy(kernel), kept)
      assert.deepEqual(log.find('warn', ''), [])
    })
  }

  it('that are desired chains of the mode in force stay', async () => {
    const kernel = await kernelWithAll()
    const nat = kernel.xtables('ipv4', 'nat', 'nft')
    await nat.apply([{ op: 'set-chain', chain: 'KUBE-SERVICES', rules: [] }])
    await openHousekeeping(
      { name: 'ipvs', flavour: 'nft', families: ['ipv4'] },
      { kernel, log: new MemoryLog(), config, node, savedFiles: noFiles },
    )()
    assert.deepEqual(await placesOfKubeProxy(kernel), ['nft nat'])
  })

  it('that come back in the other flavour are reported and stay', async () => {
    const kernel = await kernelWithAll()
    const log = new MemoryLog()
    const housekeeping = openHousekeeping(
      { name: 'iptables', flavour: 'legacy', families: ['ipv4'] },
      { kernel, log, config, node, savedFiles: noFiles },
    )
    await housekeeping()
    const { xtNamespace, nftables } = kernel
    const other = openModelKernel({ xtNamespace, nftNamespace: nftables.namespace })
    await other.xtables('ipv4', 'nat', 'nft').apply([{ op: 'set-chain', chain: 'KUBE-SERVICES', rules: [] }])
    await housekeeping()
    assert.deepEqual(await placesOfKubeProxy(kernel), ['legacy nat', 'nft nat'])
    assert.equal(
      log.find(
        'warn',
        'Rules of other programs conflict with Viaduct: IPv4 nat KUBE-SERVICES in nf_tables has come back',
      ).length,
      1,
    )
  })

  // Before, a kube-proxy in ipvs mode beside another mode of Viaduct was reported by nothing.
  for (const mode of cases.map((each) => each.mode).filter(({ name }) => name !== 'ipvs')) {
    it(`the device of ipvs mode that comes back is reported once, and its end: ${mode.name} mode ${mode.flavour ?? ''}`, async () => {
      const kernel = await kernelWithAll()
      await kernel.links.addDummy('kube-ipvs0')
      const log = new MemoryLog()
      const housekeeping = openHousekeeping(
        { ...mode, families: ['ipv4'] },
        { kernel, log, config, node, savedFiles: noFiles },
      )
      await housekeeping()
      assert.deepEqual(log.find('warn', ''), [])
      assert.equal(await kernel.links.find('kube-ipvs0'), undefined)
      const { index } = await kernel.links.addDummy('kube-ipvs0')
      await housekeeping()
      await housekeeping()
      assert.deepEqual(
        log.find('warn', '').map(({ message }) => message),
        [
          'Rules of other programs conflict with Viaduct: the device kube-ipvs0 has come back: stop the kube-proxy in ipvs mode that ' +
            'makes it, and restart Viaduct, which removes it',
        ],
      )
      await kernel.links.remove(index)
      await housekeeping()
      assert.equal(log.find('info', 'Rules of other programs no longer conflict with Viaduct').length, 1)
    })
  }

  it('are tried again while they cannot be removed', async () => {
    const kernel = await kernelWithAll()
    const log = new MemoryLog()
    const housekeeping = openHousekeeping(
      { name: 'nftables', families: ['ipv4'] },
      { kernel, log, config, node, savedFiles: noFiles },
    )
    kernel.xtables('ipv4', 'nat').plan = { callFault: () => constants.errno.EAGAIN }
    await housekeeping()
    assert.equal(log.find('warn', 'Leftovers of iptables mode cannot all be removed').length, 1)
    kernel.xtables('ipv4', 'nat').plan = {}
    await housekeeping()
    assert.deepEqual(await placesOfKubeProxy(kernel), ['kube-proxy'])
  })
})

describe('route_localnet', () => {
  const path = 'net/ipv4/conf/all/route_localnet'
  const off: ConfigInput['iptables'] = { localhostNodePorts: false }
  const cases: readonly {
    readonly name: Mode['name']
    readonly input?: ConfigInput
    readonly before: string
    readonly expected: string
  }[] = [
    { name: 'nftables', before: '2', expected: '0' },
    { name: 'ipvs', before: '2', expected: '0' },
    { name: 'userspace', before: '2', expected: '0' },
    { name: 'iptables', before: '2', expected: '2' },
    { name: 'iptables', input: { iptables: off }, before: '2', expected: '0' },
    // The IP of the Node is not known: node ports are on all addresses.
    { name: 'iptables', input: { nodePortAddresses: ['primary'] }, before: '2', expected: '2' },
    { name: 'nftables', before: '1', expected: '1' },
    { name: 'nftables', before: '0', expected: '0' },
  ]
  for (const { name, input = {}, before, expected } of cases) {
    const of = Object.keys(input).length === 0 ? '' : ` with ${JSON.stringify(input)}`
    it(`that is ${before} becomes ${expected} in ${name} mode${of}: 2 shows that Viaduct set it`, async () => {
      const kernel = openModelKernel({ sysctls: { [path]: before } })
      const own = resolveConfig({ manifests: 'm', ...input })
      await openHousekeeping(
        { name, families: ['ipv4'] },
        { kernel, log: new MemoryLog(), config: own, node, savedFiles: noFiles },
      )()
      assert.equal(await kernel.sysctl.read(path), expected)
    })
  }

  it('that this process may not write gets one warning', async () => {
    const kernel = openModelKernel({ sysctls: { [path]: '2' } })
    kernel.sysctl.fault = () => constants.errno.EROFS
    const log = new MemoryLog()
    const housekeeping = openHousekeeping(
      { name: 'nftables', families: ['ipv4'] },
      { kernel, log, config, node, savedFiles: noFiles },
    )
    await housekeeping()
    await housekeeping()
    assert.deepEqual(
      log.find('warn', '').map(({ message }) => message),
      [
        `Kernel setting cannot be taken back: ${path} should be 0, because no node port is on 127.0.0.0/8: sysctl: write ${path}: EROFS`,
      ],
    )
    kernel.sysctl.fault = () => undefined
    await housekeeping()
    assert.equal(log.find('info', 'Kernel setting is taken back').length, 1)
  })
})
