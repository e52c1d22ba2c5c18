// Checks of files that a network namespace of a test cannot change.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { resolveConfig } from '../../../src/config/index.js'
import { diagnose, type Examined } from '../../../src/doctor/index.js'
import { openModelKernel } from '../../model/index.js'

const refuse = async (): Promise<never> => await Promise.reject(new Error('not here'))
const peerCredentials = (): never => {
  throw new Error('not here')
}

/** A node with these files. Its kernel cannot read the rules of other programs. */
function nodeWith(files: Readonly<Record<string, string>>): Examined {
  const parts = { calls: new Map(), close: async () => {}, hurry: () => {}, notifyServiceManager: () => {} }
  return {
    config: resolveConfig({ manifests: 'none' }),
    nodeName: 'node-a',
    kernel: {
      ...openModelKernel(),
      ...parts,
      peerCredentials,
      listTable: refuse,
      activeChains: refuse,
      findMarkUses: refuse,
    },
    modes: {
      chosen: 'nftables',
      flavour: 'nft',
      flavourReason: '',
      problem: undefined,
      others: [],
      settings: [],
    },
    api: undefined,
    sourceProblem: undefined,
    read: async (path) => await Promise.resolve(files[path]),
    processes: [],
    inputWarnings: [],
  }
}

describe('the check of connection tracking', () => {
  const cases = [
    { count: 10, max: 100, status: 'ok' },
    { count: 79, max: 100, status: 'ok' },
    { count: 80, max: 100, status: 'warning' },
    { count: 95, max: 100, status: 'broken' },
    { count: 0, max: 0, status: 'ok' },
  ]
  for (const { count, max, status } of cases) {
    it(`is ${status} with ${count} of ${max} connections`, async () => {
      const place = '/proc/sys/net/netfilter/nf_conntrack_'
      const findings = await diagnose(
        nodeWith({ [`${place}count`]: `${count}\n`, [`${place}max`]: `${max}\n` }),
      )
      assert.deepEqual(
        findings.filter(({ check }) => check === 'conntrack').map((found) => found.status),
        [status],
      )
    })
  }
})

it('reports virtual servers that another mode left', async () => {
  const text =
    'IP Virtual Server version 1.2.1 (size=4096)\nProt LocalAddress:Port Scheduler Flags\n  -> RemoteAddress:Port\n' +
    'TCP  0A600001:01BB rr\n  -> 0A000001:192B      Masq    1      0          0\n'
  const node = nodeWith({ '/proc/net/ip_vs': text })
  const kernel = { ...node.kernel, activeChains: async () => await Promise.resolve([]) }
  const findings = await diagnose({ ...node, kernel })
  const [found] = findings.filter(({ check }) => check === 'leftovers')
  assert.deepEqual([found?.status, found?.seen], ['warning', 'IPVS has 1 virtual servers'])
})

it('goes on after a check that fails, which is unknown', async () => {
  const findings = await diagnose(nodeWith({}))
  const [found] = findings.filter(({ check }) => check === 'nat-order')
  assert.deepEqual([found?.status, found?.seen], ['unknown', 'not here'])
  assert.equal(findings.find(({ check }) => check === 'configuration')?.status, 'ok')
})
