// The text of a plan, given to the tools that its headings name, and the state of the kernel after it.
import assert from 'node:assert/strict'
import { printPlan, reportPlan } from '../../src/agent/testing.js'
import type { KernelOperation } from '../../src/inspect/index.js'
import type { Namespace } from './namespaces.js'
import { stateOf, withoutSlots } from './plan-lab.js'

/** Gives each section of a printed plan to the command of its heading. */
export async function runSections(node: Namespace, operations: readonly KernelOperation[]): Promise<void> {
  const report = reportPlan(
    { mode: 'nftables', operations, refusedSettings: [] },
    { isSummary: false, modulesNotLoaded: [] },
  )
  const [, ...sections] = printPlan(report).split('\n# ')
  for (const section of sections) {
    const [heading = '', ...lines] = section.trimEnd().split('\n')
    if (heading === 'conntrack' || heading.endsWith(' (no tool)')) continue
    const command = heading.replace(/ \(.*/u, '')
    assert.equal(command, heading)
    const input = lines.map((line) => `${line}\n`).join('')
    if (command === 'sysctl') await node.must('sh', '-c', lines.map((line) => `sysctl ${line}`).join(' && '))
    else await node.must('sh', '-c', 'printf %s "$1" | $2', 'sh', input, command)
  }
}

/** Tables of iptables-nft: its versions differ in the expressions for the same rule. */
const xtTable = /^table ip6? (?:nat|filter|mangle|raw|security) \{\n(?:.*\n)*?\}$/gmu

/** The state as iptables and nft list it, in any order of chains and of elements. */
export async function listedState(node: Namespace): Promise<readonly string[]> {
  const rules = await node.must('sh', '-c', 'iptables-nft-save; ip6tables-nft-save')
  const state = (await stateOf(node))
    .replaceAll(xtTable, '')
    .replaceAll(/elements = \{[^}]*\}/gu, sortedElements)
  const lines = withoutSlots(`${state}\n${rules}`)
    .replaceAll(/^#.*|\[\d+:\d+\]/gmu, '')
    // A size of ipset's own, and random numbers: of a set, and the hardware address of a dummy device.
    .replaceAll(/ bucketsize \d+| initval 0x[\da-f]+|(?<=^kube-ipvs0 .*) [\da-f:]{17}/gmu, '')
    .split('\n')
    .filter((line) => line.trim() !== '')
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
    chain = /^(?:\tchain .*|-A [^-]\S*)/u.exec(line)?.[0] ?? (line.startsWith('\t\t') ? chain : '')
    if (chain === '') return line
    const place = `${table} ${chain}`
    const count = (counts.get(place) ?? 0) + 1
    counts.set(place, count)
    return `${place} ${count}: ${line}`
  })
}
