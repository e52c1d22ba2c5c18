// The rules that a kube-proxy 1.36 in iptables mode wrote for the Services of the lab with four endpoints each
// (bench/takeovers/record.ts), for either flavour of the tools.
import type { XtFlavour } from '../../../src/kernel/index.js'
import type { Namespace } from '../../support/namespaces.js'
import { treeText } from '../../support/tree.js'
import { type Family, families } from '../table/world.js'

export const recordedEndpoints = 4

const tools = {
  IPv4: { nft: 'iptables-nft', legacy: 'iptables-legacy' },
  IPv6: { nft: 'ip6tables-nft', legacy: 'ip6tables-legacy' },
} as const

/** Writes them as kube-proxy does: first the missing jumps, each at the head of its chain, then all other rules in one restore. */
export async function writeRecordedRules(node: Namespace, flavour: XtFlavour): Promise<void> {
  for (const family of families) await writeFamily(node, family, tools[family][flavour])
}

async function writeFamily(node: Namespace, family: Family, tool: string): Promise<void> {
  const lines = treeText(`test/traffic/reference/recorded/${family}.rules`).split('\n')
  let table = ''
  const jumps: string[] = []
  const others: string[] = []
  for (const line of lines) {
    if (line.startsWith('*')) table = line.slice(1)
    const [, rule, target] = /^-A ([A-Z]+ .*-j (\S+))$/u.exec(line) ?? []
    if (rule !== undefined && target !== undefined)
      jumps.unshift(jumpScript(`${tool} -w -t ${table}`, rule, target))
    // Policies of base chains are not kube-proxy's.
    else if (!/^:[A-Z]+ /u.test(line)) others.push(line)
  }
  await node.must('sh', '-e', '-c', jumps.join('\n'))
  await node.must(
    'sh',
    '-c',
    `printf '%s\\n' "$1" | ${tool}-restore --wait --noflush`,
    'sh',
    others.join('\n'),
  )
}

/** Makes the chain and the rule that jumps to it, unless they exist. */
function jumpScript(tool: string, rule: string, target: string): string {
  return `${tool} -N ${target} 2>/dev/null || true\n${tool} -C ${rule} 2>/dev/null || ${tool} -I ${rule}`
}
