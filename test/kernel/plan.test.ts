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

/**
 * Gives each section of a printed plan to the command of its heading, without the lines that nft does not read, and the option that it
 * reads for sets alone.
 */
async function runSections(node: Namespace, operations: readonly KernelOperation[]): Promise<void> {
  const report = reportPlan(
    { mode: 'nftables', operations, refusedSettings: [] },
    { isSummary: false, modulesNotLoaded: [] },
  )
  const [, ...sections] = printPlan(report).split('\n# ')
  for (const section of sections) {
    const [heading = '', ...lines] = section.trimEnd().split('\n')
    if (heading === 'conntrack' || heading.endsWith(' (no tool)')) continue
    const command = heading.replace(/ \(.*/u, '')
    const isWhole = !lines.some((line) => isUnreadable(line) || line.includes(' gc-interval '))
    assert.equal(command === heading, isWhole, heading)
    const input = lines
      .filter((line) => !isUnreadable(line))
      .map((line) => `${line.replace(' gc-interval 10s ;', '')}\n`)
      .join('')
    if (command === 'sysctl') await node.must('sh', '-c', lines.map((line) => `sysctl ${line}`).join(' && '))
    else await node.must('sh', '-c', 'printf %s "$1" | $2', 'sh', input, command)
  }
}

/** Whether nft does not read the rule: it compares the value of a map, or has the port of a connection in a key. */
function isUnreadable(line: string): boolean {
  return /map @\S+-counts |ct original proto-dst/u.test(line)
}

/** Tables of iptables-nft: its versions differ in the expressions for the same rule. */
const xtTable = /^table ip6? (?:nat|filter|mangle|raw|security) \{\n(?:.*\n)*?\}$/gmu

/** The state as iptables and nft list it, in any order of chains and of elements, and without what nft does not read. */
async function listedState(node: Namespace): Promise<readonly string[]> {
  const rules = await node.must('sh', '-c', 'iptables-nft-save; ip6tables-nft-save')
  const state = (await stateOf(node))
    .replaceAll(xtTable, '')
    .replaceAll(/elements = \{[^}]*\}/gu, sortedElements)
  const lines = `${state}\n${rules}`
    .replaceAll(/^#.*|\[\d+:\d+\]|^\s*gc-interval 10s$/gmu, '')
    .split('\n')
    .filter((line) => line.trim() !== '' && !isUnreadable(line))
  return withPlaces(lines).toSorted()
}

function sortedElements(text: string): string {
  const elements = text.slice(text.indexOf('{') + 1, -1).split(',')
  return elements
    .map((element) => element.trim().replaceAll(/\s+/gu, ' '))
    .toSorted()
    .join('\n')
}

/** Each rule with its chain and its number there, so that their order counts. */
function withPlaces(lines: readonly string[]): readonly string[] {
  const counts = new Map<string, number>()
  let [table, chain] = ['', '']
  return lines.map((line) => {
    if (/^(?:\*|table )/u.test(line)) table = line
    chain = /^(?:\tchain .*|-A \S+)/u.exec(line)?.[0] ?? (line.startsWith('\t\t') ? chain : '')
    if (chain === '') return line
    const place = `${table} ${chain}`
    const count = (counts.get(place) ?? 0) + 1
    counts.set(place, count)
    return `${place} ${count}: ${line}`
  })
}

describe('a plan', { timeout: 240_000 }, () => {
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
