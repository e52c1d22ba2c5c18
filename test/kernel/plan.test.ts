// The plan of a takeover is what the takeover does: the same operations, from the state of each other proxy to each mode.
import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { isLasting, type KernelOperation } from '../../src/inspect/index.js'
import { type KubeProxyNftNode, writeKubeProxyTables } from '../support/kube-proxy-nftables.js'
import { Namespace } from '../support/namespaces.js'
import { addNodeAddresses, linesOf, operationsOf, type PlannedMode, stateOf } from '../support/plan-lab.js'
import { listedState, runSections } from '../support/plan-tools.js'
import { olderServices } from '../support/older-services.js'
import { writeRecordedRules } from '../traffic/reference/recorded-rules.js'

const targets = ['nftables', 'iptables legacy', 'iptables nft', 'userspace'] as const
/** This machine's kernel may lack IP_VS: then the start falls back, and the plan with it. */
const ipvsTargets = ['ipvs legacy', 'ipvs nft'] as const

const kubeProxyNode: KubeProxyNftNode = {
  family: 'IPv4',
  addresses: ['192.0.2.10'],
  clusterCidr: '10.244.0.0/16',
  ports: [
    {
      service: 'shop/web',
      portName: 'http',
      protocol: 'tcp',
      clusterIP: '10.96.0.20',
      port: 80,
      nodePort: 30080,
      endpoints: ['10.244.1.11', '10.244.2.11'],
      targetPort: 8080,
    },
  ],
}

/** The states of a node, and how to make them. */
const states = {
  nothing: async () => {},
  'kube-proxy in iptables mode': async (node: Namespace) => await writeRecordedRules(node, 'legacy'),
  'kube-proxy in iptables mode on iptables-nft': async (node: Namespace) =>
    await writeRecordedRules(node, 'nft'),
  'kube-proxy in nftables mode': async (node: Namespace) => await writeKubeProxyTables(node, [kubeProxyNode]),
  'an agent in iptables legacy mode': async (node: Namespace) => void (await start(node, 'iptables legacy')),
  'an agent in iptables nft mode': async (node: Namespace) => void (await start(node, 'iptables nft')),
  'an agent in nftables mode': async (node: Namespace) => void (await start(node, 'nftables')),
  'an agent in userspace mode': async (node: Namespace) => void (await start(node, 'userspace')),
} as const

async function start(
  node: Namespace,
  mode: PlannedMode,
  ...more: readonly string[]
): Promise<readonly KernelOperation[]> {
  return await operationsOf('start', node, mode, ...more)
}

describe('a plan', { timeout: 600_000 }, () => {
  let node: Namespace
  /** Gets the state of the node, and the commands of its plan. */
  let copy: Namespace

  beforeEach(async () => {
    ;[node, copy] = [await Namespace.create('node'), await Namespace.create('copy')]
    for (const each of [node, copy]) await addNodeAddresses(each)
  })
  afterEach(async () => {
    for (const each of [node, copy]) await each.close()
  })

  for (const [state, make] of Object.entries(states)) {
    for (const mode of targets) {
      it(`from ${state} to ${mode} changes nothing, is what the start and the tools do, and is empty afterwards`, async () => {
        await Promise.all([node, copy].map(make))
        const before = await stateOf(node)
        const planned = await operationsOf('plan', node, mode)
        assert.equal(await stateOf(node), before)
        const [started] = await Promise.all([start(node, mode), runSections(copy, planned)])
        assert.deepEqual(await listedState(copy), await listedState(node))
        // An agent that restarts in its mode changes nothing.
        assert.equal(started.some(isLasting), state !== `an agent in ${mode} mode`)
        assert.deepEqual(linesOf(planned), linesOf(started))
        const again = await operationsOf('plan', node, mode)
        assert.deepEqual(linesOf(again.filter(isLasting)), [])
      })
    }
  }

  for (const state of ['nothing', 'kube-proxy in iptables mode', 'an agent in nftables mode'] as const) {
    for (const mode of ipvsTargets) {
      it(`from ${state} to ${mode} falls back as the start does`, async () => {
        await states[state](node)
        const before = await stateOf(node)
        const planned = await operationsOf('plan', node, mode)
        assert.equal(await stateOf(node), before)
        assert.deepEqual(linesOf(planned), linesOf(await start(node, mode)))
      })
    }
  }

  // No release had another layout in the kernel: what an older agent can leave is objects of other settings and other Services.
  for (const mode of targets) {
    it(`from an older agent with other settings and Services in ${mode} mode is what the start does`, async () => {
      const folder = await mkdtemp(join(tmpdir(), 'viaduct-plan-'))
      try {
        await writeFile(join(folder, 'old.yaml'), olderServices)
        await start(
          node,
          mode,
          `--manifests=${folder}`,
          '--cluster-cidr=10.99.0.0/16,fd00:10:99::/56',
          '--iptables-masquerade-bit=15',
          '--conntrack-udp-timeout=77s',
        )
        const before = await stateOf(node)
        const planned = await operationsOf('plan', node, mode)
        assert.equal(await stateOf(node), before)
        for (const effect of ['add', 'remove'])
          assert.ok(
            planned.some((operation) => isLasting(operation) && operation.effect === effect),
            effect,
          )
        assert.deepEqual(linesOf(planned), linesOf(await start(node, mode)))
        assert.deepEqual(linesOf((await operationsOf('plan', node, mode)).filter(isLasting)), [])
      } finally {
        await rm(folder, { recursive: true })
      }
    })
  }
})
