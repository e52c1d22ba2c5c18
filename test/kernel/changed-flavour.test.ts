// The shipped agent on a node whose kubelet speaks the other flavour of x_tables than an earlier agent did: it says so, and leaves
// nothing of the former flavour that is provably of no use.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { apiService, apiSlice } from '../support/api-documents.js'
import { Namespace } from '../support/namespaces.js'
import type { Program } from '../support/processes.js'
import { treeRoot } from '../support/tree.js'

type Flavour = 'legacy' | 'nft'

const setting = '/proc/sys/net/ipv4/conf/all/route_localnet'
const places: Readonly<Record<Flavour, string>> = { legacy: 'the legacy tables', nft: 'nf_tables' }
const directions: readonly { readonly former: Flavour; readonly now: Flavour }[] = [
  { former: 'legacy', now: 'nft' },
  { former: 'nft', now: 'legacy' },
]

let manifests: string
let node: Namespace

beforeEach(async () => {
  manifests = mkdtempSync(join(tmpdir(), 'viaduct-flavour-'))
  const documents = [
    { apiVersion: 'v1', kind: 'Service', ...apiService('web', '10.96.0.10') },
    { apiVersion: 'discovery.k8s.io/v1', kind: 'EndpointSlice', ...apiSlice('web-1', 'web', ['10.1.0.1']) },
  ]
  writeFileSync(join(manifests, 'web.yaml'), documents.map((each) => JSON.stringify(each)).join('\n---\n'))
  node = await Namespace.create('node')
  await node.ip('link add eth0 type veth peer name eth1', 'address add 192.0.2.7/24 dev eth0')
})

afterEach(async () => {
  await node.close()
  rmSync(manifests, { recursive: true })
})

function startAgent(...flags: readonly string[]): Program {
  const always = ['--proxy-mode=iptables', '--conntrack-max-per-core=0', '--hostname-override=node-a', '-v=2']
  const command = [process.execPath, join(treeRoot, 'dist/agent.js'), ...always, '--manifests', manifests]
  return node.start(...command, ...flags)
}

async function isInForce(agent: Program): Promise<void> {
  for (const family of ['IPv4', 'IPv6'])
    await agent.line((line) => line.includes('"Sync done"') && line.includes(`"${family}"`))
}

async function stop(agent: Program): Promise<readonly string[]> {
  agent.signal('SIGTERM')
  const { code, stdout } = await agent.ended
  assert.equal(code, 0)
  return stdout.split('\n')
}

/** A run of an earlier agent, which had its rules in this flavour. */
async function hasRun(flavour: Flavour): Promise<void> {
  const agent = startAgent(`--iptables-flavour=${flavour}`)
  await isInForce(agent)
  await stop(agent)
}

/** As kubelet does: its hint, and its guard of loopback addresses, which has the form of Viaduct's. */
async function startKubelet(flavour: Flavour): Promise<void> {
  const filter = (rule: string): string => `iptables-${flavour} ${rule}`
  const commands = [
    `iptables-${flavour} -t mangle -N KUBE-KUBELET-CANARY`,
    filter('-N KUBE-FIREWALL'),
    filter('-I OUTPUT -j KUBE-FIREWALL'),
    filter('-I INPUT -j KUBE-FIREWALL'),
    filter(
      '-A KUBE-FIREWALL -m comment --comment "block incoming localnet connections" --dst 127.0.0.0/8 ! --src 127.0.0.0/8 ' +
        '-m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP',
    ),
  ]
  await node.must('sh', '-ec', commands.join('\n'))
}

/** Lines of iptables-save of both families that name a chain of Kubernetes. */
async function kubeLines(flavour: Flavour): Promise<readonly string[]> {
  const texts = [await node.must(`iptables-${flavour}-save`), await node.must(`ip6tables-${flavour}-save`)]
  return texts.flatMap((text) => text.split('\n').filter((line) => line.includes('KUBE-')))
}

function firewallLines(lines: readonly string[]): readonly string[] {
  return lines.filter((line) => line.includes('KUBE-FIREWALL'))
}

for (const { former, now } of directions) {
  describe(`from ${former} to ${now}`, { timeout: 60_000 }, () => {
    // Before, one line of level info named the new flavour alone.
    it('is a warning with both flavours and the way to keep the former; the next start has none', async () => {
      await hasRun(former)
      await startKubelet(now)
      const [first, second] = [startAgent(), startAgent]
      await isInForce(first)
      const lines = (await stop(first)).filter((line) => line.includes('"Flavour of iptables'))
      assert.equal(lines.length, 1)
      const [line = ''] = lines
      assert.match(line, /"level":"warn"/u)
      for (const words of [
        `Flavour of iptables changes from ${former} to ${now}`,
        `kubelet made IPv4 mangle KUBE-KUBELET-CANARY in ${places[now]}`,
        `Services stand in ${places[former]}`,
        'session affinity',
        `--iptables-flavour=${former}`,
      ])
        assert.ok(line.includes(words), `${words}: ${line}`)
      const again = second()
      await isInForce(again)
      const [next = '', ...others] = (await stop(again)).filter((each) =>
        each.includes('"Flavour of iptables'),
      )
      assert.match(next, /"level":"info".*"Flavour of iptables chosen"/u)
      assert.deepEqual(others, [])
    })

    // Before, the guard and its jumps stayed for good.
    it('leaves nothing in the former flavour, and keeps the guard in the new one', async () => {
      await hasRun(former)
      assert.equal(firewallLines(await kubeLines(former)).length, 4)
      await startKubelet(now)
      const agent = startAgent()
      await agent.line(
        (line) => line.includes('Leftovers of iptables mode') && line.includes('KUBE-FIREWALL'),
      )
      assert.deepEqual(await kubeLines(former), [])
      assert.equal(firewallLines(await kubeLines(now)).length, 4)
      await stop(agent)
    })

    it('leaves nothing there with --cleanup, which also takes back route_localnet', async () => {
      await hasRun(former)
      await startKubelet(now)
      assert.equal(await node.must('cat', setting), '2')
      await node.must(process.execPath, join(treeRoot, 'dist/agent.js'), '--cleanup')
      assert.deepEqual(await kubeLines(former), [])
      assert.equal(firewallLines(await kubeLines(now)).length, 4)
      assert.equal(await node.must('cat', setting), '0')
    })

    const foreign: readonly { readonly name: string; readonly commands: readonly string[] }[] = [
      {
        name: 'a rule of another program in the chain',
        commands: [`iptables-${former} -A KUBE-FIREWALL -s 198.51.100.1 -j DROP`],
      },
      {
        name: 'a jump of another program to the chain',
        commands: [`iptables-${former} -I FORWARD -j KUBE-FIREWALL`],
      },
      {
        name: "kubelet's chains in both flavours",
        commands: [`iptables-${former} -t mangle -N KUBE-IPTABLES-HINT`],
      },
      {
        name: 'no guard in the flavour of kubelet',
        commands: [`iptables-${now} -F KUBE-FIREWALL`],
      },
    ]
    for (const { name, commands } of foreign) {
      it(`keeps the guard: ${name}`, async () => {
        await hasRun(former)
        await startKubelet(now)
        await node.must('sh', '-ec', commands.join('\n'))
        const before = firewallLines(await kubeLines(former))
        await node.must(process.execPath, join(treeRoot, 'dist/agent.js'), '--cleanup')
        assert.deepEqual(firewallLines(await kubeLines(former)), before)
      })
    }

    it('keeps the guard in the flavour that a setting chooses against kubelet', async () => {
      await hasRun(former)
      await startKubelet(now)
      const agent = startAgent(`--iptables-flavour=${former}`)
      await isInForce(agent)
      await agent.line((line) => line.includes('Rules of other programs conflict with Viaduct'))
      await stop(agent)
      assert.equal(firewallLines(await kubeLines(former)).length, 4)
    })
  })
}
