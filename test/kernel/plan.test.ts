// The plan of a takeover is what the takeover does: the same operations, from the state of each other proxy to each mode.
import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { printPlan, reportPlan } from '../../src/agent/index.js'
import { isLasting, type KernelOperation } from '../../src/kernel/index.js'
import { type KubeProxyNftNode, writeKubeProxyTables } from '../support/kube-proxy-nftables.js'
import { Namespace } from '../support/namespaces.js'
import { addNodeAddresses, linesOf, operationsOf, type PlannedMode, stateOf } from '../support/plan-lab.js'
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

/** Services of an older agent that the lab's Services do not have. */
const olderServices = `
apiVersion: v1
kind: Service
metadata: { name: gone, namespace: shop }
spec:
  type: NodePort
  clusterIP: 10.96.9.9
  sessionAffinity: ClientIP
  ports: [{ name: http, port: 80, nodePort: 30999 }]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: gone-1, namespace: shop, labels: { kubernetes.io/service-name: gone } }
addressType: IPv4
ports: [{ name: http, port: 8080 }]
endpoints: [{ addresses: [10.99.1.9] }]
`

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

/** Gives each section of a printed plan to the command of its heading. */
async function runSections(node: Namespace, text: string): Promise<void> {
  const [, ...sections] = text.split('\n# ')
  for (const section of sections) {
    const [heading = '', ...lines] = section.trimEnd().split('\n')
    if (['conntrack', 'held ports', 'relay'].includes(heading)) continue
    const input = `${lines.join('\n')}\n`
    if (heading === 'sysctl') await node.must('sh', '-c', lines.map((line) => `sysctl ${line}`).join(' && '))
    else await node.must('sh', '-c', 'printf %s "$1" | $2', 'sh', input, heading)
  }
}

/** Without the order of lines. The tools write comments of their own into sets. */
function linesIn(state: string): readonly string[] {
  return state.split('\n').toSorted()
}

describe('a plan', { timeout: 240_000 }, () => {
  let node: Namespace

  beforeEach(async () => {
    node = await Namespace.create('node')
    await addNodeAddresses(node)
  })
  afterEach(async () => await node.close())

  for (const [state, make] of Object.entries(states)) {
    for (const mode of targets) {
      it(`from ${state} to ${mode} changes nothing, is what the start does, and is empty afterwards`, async () => {
        await make(node)
        const before = await stateOf(node)
        const planned = await operationsOf('plan', node, mode)
        assert.equal(await stateOf(node), before)
        const started = await start(node, mode)
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

  // nft does not read every set of nftables mode.
  const byTools = [
    ['nothing', 'userspace'],
    ['kube-proxy in iptables mode', 'iptables legacy'],
    ['kube-proxy in iptables mode on iptables-nft', 'iptables legacy'],
    ['kube-proxy in nftables mode', 'userspace'],
    ['an agent in userspace mode', 'iptables legacy'],
  ] as const
  for (const [state, mode] of byTools) {
    it(`from ${state} to ${mode}: its commands, given to the tools, make the state of a start`, async () => {
      await states[state](node)
      const report = reportPlan(
        { mode: 'nftables', operations: await operationsOf('plan', node, mode), refusedSettings: [] },
        { isSummary: false, modulesNotLoaded: [] },
      )
      await runSections(node, printPlan(report))
      const made = await stateOf(node)
      const other = await Namespace.create('other')
      try {
        await addNodeAddresses(other)
        await states[state](other)
        await start(other, mode)
        assert.deepEqual(linesIn(made), linesIn(await stateOf(other)))
      } finally {
        await other.close()
      }
    })
  }
})
