// Foreign changes to the sets of ipvs mode: a foreign set has one of the names; ip_set is unloaded. Runs in the guest: it needs IP_VS.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, afterEach, before, describe, it } from 'node:test'
import { Namespace } from '../support/namespaces.js'
import type { Program } from '../support/processes.js'
import { afterSyncs } from '../support/syncs.js'
import { treeRoot } from '../support/tree.js'
import { agentCommand } from '../traffic/agent-process.js'

const shop = join(treeRoot, 'examples/shop')
const dns = '10.96.0.10'
const clusterIPs = 'KUBE-CLUSTER-IP'
const families = ['iptables-legacy', 'ip6tables-legacy'] as const
const tables = ['mangle', 'filter', 'nat'] as const
const foreignRule = ['INPUT', '-m', 'set', '--match-set', clusterIPs, 'dst', '-j', 'ACCEPT']

describe('the sets of ipvs mode and others', { timeout: 300_000 }, () => {
  let node: Namespace
  let agent: Program | undefined
  before(async () => (node = await Namespace.create('node-a')))
  afterEach(async () => {
    agent?.signal('SIGCONT')
    await agent?.kill()
  })
  after(() => node.close())

  const start = async (): Promise<Program> => {
    agent = node.start(...agentCommand('--manifests', shop, '-v', '2'))
    for (const family of ['IPv4', 'IPv6'])
      await agent.line((line) => line.includes(`"${family}"`) && /"complete":true.*"Sync done"/.test(line))
    return agent
  }

  /** Waits until the command prints the text. */
  const prints = async (program: Program, text: string, ...command: readonly string[]): Promise<void> => {
    const read = async (): Promise<string> => (await node.run(...command)).stdout
    await afterSyncs(program, read, (printed) => printed.includes(text))
  }
  /** Waits for an entry of the cluster's DNS in the set, then for a rule that matches the set. */
  const isWhole = async (program: Program): Promise<void> => {
    await prints(program, `${dns},tcp:53`, 'ipset', 'save', clusterIPs)
    await prints(program, `--match-set ${clusterIPs} dst,dst`, 'iptables-legacy-save')
  }

  it('a foreign set of another type keeps its entries; all else works, and its name is used once no rule refers to it', async () => {
    await node.must('ipset', 'create', clusterIPs, 'hash:ip')
    await node.must('ipset', 'add', clusterIPs, '192.0.2.1')
    await node.must('iptables-legacy', '-A', ...foreignRule)
    const program = await start()
    const line = (text: string): Promise<string> => program.line((words) => words.includes(text))
    await line(`set ${clusterIPs}: another program's hash:ip has its name`)
    assert.match(await node.must('ipvsadm', '-Sn'), new RegExp(`-A -t ${dns}:53`))
    assert.match(await node.must('ipset', 'save', clusterIPs), /hash:ip .*\nadd \S+ 192\.0\.2\.1\s*$/u)
    assert.match(await node.must('ipset', 'save', 'KUBE-IPVS-IPS'), new RegExp(` ${dns}`))
    const rules = await node.must('iptables-legacy-save')
    assert.match(rules, /--match-set KUBE-LOAD-BALANCER dst,dst/)
    assert.doesNotMatch(rules, new RegExp(`--match-set ${clusterIPs} dst,dst`))
    assert.doesNotMatch(rules, /--match-set KUBE-IPVS-IPS dst .*REJECT/)

    await node.must('iptables-legacy', '-D', ...foreignRule)
    await line('Network programming recovered')
    await isWhole(program)
    assert.match(await node.must('iptables-legacy-save'), /--match-set KUBE-IPVS-IPS dst .*REJECT/)
  })

  it('restores sets, entries and rules after ip_set was unloaded and loaded again', async () => {
    const program = await start()
    await isWhole(program)
    program.signal('SIGSTOP')
    for (const family of families) {
      for (const table of tables) {
        await node.must(family, '-t', table, '-F')
        await node.must(family, '-t', table, '-X')
      }
    }
    await node.must('ipset', 'destroy')
    await node.must(
      'sh',
      '-c',
      'modprobe -r xt_set $(lsmod | sed -n "s/^\\(ip_set_[a-z_]*\\) .*/\\1/p") && modprobe -r ip_set',
    )
    assert.equal((await node.run('grep', '-c', '^ip_set', '/proc/modules')).stdout.trim(), '0')
    program.signal('SIGCONT')
    await isWhole(program)
    await program.line((line) => line.includes('"set-missing"'))
  })
})
