// `viaduct explain` at the shipped agent: its answer, and objects of the kernel that another program removed.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import type { NfOp } from '../../src/kernel/index.js'
import { differences } from '../../src/layers/xtables/differences.js'
import { compileRoute, compileSkeleton } from '../../src/modes/iptables/testing.js'
import { IptablesLedger } from '../../src/layers/xtables/testing.js'
import { describeElement, packedElement } from '../../src/layers/nft-table/describe.js'
import { differences as tableDifferences } from '../../src/layers/nft-table/differences.js'
import { type NftModeSettings, tableName } from '../../src/layers/nft-table/index.js'
import { compileRoute as compileTableRoute, elementsOf } from '../../src/layers/nft-table/testing.js'
import { missingVips } from '../../src/layers/vips/index.js'
import { requireFreshNamespace } from '../contract/fresh-namespace.js'
import { openRealKernel } from '../contract/real-kernel.js'
import { openRealSubject } from '../contract/xtables-subjects.js'
import { Namespace, setSysctls } from '../support/namespaces.js'
import { endpoint, node as nodeObject, port, service, slice } from '../support/objects.js'
import { makeSettings } from '../support/packet-model-settings.js'
import { type Finished, mustRun } from '../support/processes.js'
import { backends, cidr, ip, plainRoute } from '../support/routes.js'
import { treeRoot } from '../support/tree.js'
import { manifestText } from '../traffic/table/manifest.js'

requireFreshNamespace()

const agentFile = join(treeRoot, 'dist/agent.js')

const objects = [
  nodeObject('node-a', { ips: ['192.168.60.11'] }),
  service('web', '10.96.0.10', { ports: [port(80)] }),
  slice('web-1', 'web', [
    endpoint('10.244.1.10', { nodeName: 'node-a' }),
    endpoint('10.244.2.10', { nodeName: 'node-b' }),
    endpoint('10.244.2.11', { nodeName: 'node-b', ready: false }),
  ]),
]

function configuration(mode: string): object {
  return {
    apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
    kind: 'KubeProxyConfiguration',
    mode,
    hostnameOverride: 'node-a',
    clusterCIDR: '10.244.1.0/24',
  }
}

/** Objects that another program removes. */
interface Removal {
  readonly name: string
  /** A command that prints the objects, one a line, from the lines of explain. */
  readonly find: (lines: readonly string[]) => string
  /** A command that removes one of them. */
  readonly command: (found: string) => string
  /** The sentence of explain about it. */
  readonly sentence: (found: string) => string
}

/** The first rule of a chain. */
function firstRule(flavour: string, table: string, chain: string): Removal {
  return {
    name: `a rule of ${chain} of table ${table}`,
    find: () => `echo ${chain}`,
    command: (found) => `iptables-${flavour} -t ${table} -D ${found} 1`,
    sentence: (found) => `${found} of table ${table} has other rules`,
  }
}

/** The chains of the Service alone. */
const ownChains: Removal = {
  name: "rules of the Service's chains",
  find: (lines) => {
    const chains = lines.flatMap((line) => /^-A (KUBE-(?:SVC|SEP)-\S+) /u.exec(line)?.[1] ?? [])
    return `printf '%s\\n' ${[...new Set(chains)].join(' ')}`
  },
  command: (found) => `iptables-legacy -t nat -D ${found} 1`,
  sentence: (found) => `${found} of table nat has other rules`,
}

/** The elements, then the rules of each chain, then the table. */
const ofTable: readonly Removal[] = [
  {
    name: 'elements',
    find: (lines) => {
      const added = lines.filter((line) => line.startsWith('add element '))
      return `cat <<'END'\n${added.map((line) => line.slice('add '.length)).join('\n')}\nEND`
    },
    command: (found) => `nft 'delete ${found}'`,
    sentence: (found) => `${found} is missing`,
  },
  {
    name: 'rules of chains of the table',
    find: () =>
      `nft -a list table ip kube-proxy | awk '$1 == "chain" { chain = $2; next } /# handle/ && chain { print chain; chain = "" }'`,
    command: (found) =>
      `nft delete rule ip kube-proxy ${found} handle $(nft -a list chain ip kube-proxy ${found} | sed -n 's/^\t\t.* # handle //p' | head -1)`,
    sentence: (found) => `chain ${found} has other rules`,
  },
  {
    name: 'the table',
    find: () => `nft list table ip kube-proxy | awk '$1 == "chain" { print $2 }'`,
    command: () => 'nft delete table ip kube-proxy 2>/dev/null || true',
    sentence: (found) => `chain ${found} is missing`,
  },
]

interface ModeCase {
  readonly removals: readonly Removal[]

  readonly name: string
  readonly mode: string
  readonly flags: readonly string[]
  /** A kernel object of the answer. */
  readonly object: RegExp
}

const modes: readonly ModeCase[] = [
  {
    name: 'iptables, legacy',
    mode: 'iptables',
    flags: ['--iptables-flavour=legacy'],
    object: /^-A KUBE-SERVICES -d 10\.96\.0\.10\/32 /u,
    removals: [
      ownChains,
      firstRule('legacy', 'nat', 'KUBE-SERVICES'),
      firstRule('legacy', 'nat', 'KUBE-POSTROUTING'),
      ...['PREROUTING', 'OUTPUT', 'POSTROUTING'].map((hook) => firstRule('legacy', 'nat', hook)),
      firstRule('legacy', 'filter', 'KUBE-FORWARD'),
      ...['INPUT', 'FORWARD', 'OUTPUT'].map((hook) => firstRule('legacy', 'filter', hook)),
    ],
  },
  {
    name: 'iptables, nft',
    mode: 'iptables',
    flags: ['--iptables-flavour=nft'],
    object: /^add element ip kube-proxy .* 10\.96\.0\.10 \. tcp \. 80 /u,
    removals: [
      firstRule('nft', 'filter', 'KUBE-FORWARD'),
      ...['INPUT', 'FORWARD', 'OUTPUT'].map((hook) => firstRule('nft', 'filter', hook)),
      ...ofTable,
    ],
  },
  {
    name: 'nftables',
    mode: 'nftables',
    flags: [],
    removals: ofTable,
    object: /^add element ip kube-proxy .* 10\.96\.0\.10 \. tcp \. 80 /u,
  },
  {
    name: 'userspace',
    mode: 'userspace',
    flags: [],
    removals: [
      {
        name: 'the route of the VIP',
        find: () => 'echo 10.96.0.10',
        command: (found) => `ip route del local ${found} table local`,
        sentence: (found) => `local route of ${found} is missing`,
      },
    ],
    object: /^listen tcp 10\.96\.0\.10:80 /,
  },
]

for (const { name, mode, flags, object, removals } of modes) {
  describe(`explain in mode ${name}`, { timeout: 120_000 }, () => {
    let folder: string
    let node: Namespace
    before(async () => {
      folder = mkdtempSync(join(tmpdir(), 'viaduct-explain-'))
      writeFileSync(join(folder, 'objects.json'), manifestText(objects))
      writeFileSync(`${folder}.configuration`, JSON.stringify(configuration(mode)))
      node = await Namespace.create('node')
      await node.ip('address add 192.168.60.11/32 dev lo', 'route add 10.0.0.0/8 dev lo src 192.168.60.11')
      await setSysctls(node, 'net.ipv4.ip_forward=1')
      const own = ['--manifests', folder, '--config', `${folder}.configuration`, '-v', '2']
      const agent = node.start(process.execPath, agentFile, ...own, '--control-socket', socket(), ...flags)
      await agent.line((line) => line.includes('Control socket listens'))
    })
    after(async () => {
      await node.close()
      rmSync(folder, { recursive: true })
      rmSync(`${folder}.configuration`)
    })

    function socket(): string {
      return `${folder}.sock`
    }

    async function run(...words: readonly string[]): Promise<Finished> {
      return await node.run(process.execPath, agentFile, 'explain', ...words, '--socket', socket())
    }

    /** The value of `-o json` with the exit code. */
    async function explain(client: string, destination: string) {
      const { code, stdout, stderr } = await run(client, destination, '-o', 'json')
      assert.ok(stdout !== '', stderr)
      return { code, value: JSON.parse(stdout) }
    }

    for (const { client, kind, masqueraded } of [
      { client: '10.244.1.11', kind: 'pod', masqueraded: false },
      { client: 'node', kind: 'node', masqueraded: true },
      { client: '203.0.113.5', kind: 'other', masqueraded: true },
    ]) {
      it(`explains a connection of ${client}`, async () => {
        const { code, value } = await explain(client, '10.96.0.10:80')
        assert.deepEqual([code, value.kernel], [0, { state: 'agrees', differences: [] }])
        assert.equal(value.client.kind, kind)
        assert.equal(value.verdict, 'serve')
        assert.deepEqual(
          value.endpoints.map((one: { endpoint: string; isCandidate: boolean; isMasqueraded: boolean }) => [
            one.endpoint,
            one.isCandidate,
            one.isMasqueraded,
          ]),
          [
            ['10.244.1.10:8080', true, masqueraded || mode === 'userspace'],
            ['10.244.2.10:8080', true, masqueraded || mode === 'userspace'],
            ['10.244.2.11:8080', false, false],
          ],
        )
        assert.ok(
          value.objects.some((line: string) => object.test(line)),
          value.objects.join('\n'),
        )
      })
    }

    it('names the ports of a cluster IP at another port', async () => {
      const { value } = await explain('node', '10.96.0.10:81')
      assert.match(value.steps[0].text, /cluster IP of default\/web, which has the ports 80\/tcp/u)
    })

    it('says why the route is not known', async () => {
      const { stdout } = await run('198.51.100.1', '10.96.0.10:80')
      assert.match(stdout, /^Route: +is not known: .*this node has no route to 198\.51\.100\.1$/mu)
    })

    for (const { name: removed, find, command, sentence } of removals) {
      it(`names ${removed} that another program removes`, async () => {
        const { value } = await explain('node', '10.96.0.10:80')
        const listed = await node.must('sh', '-c', find(value.objects))
        const names = listed.split('\n').filter((line) => line !== '')
        assert.ok(names.length > 0, `no ${removed}`)
        for (const found of names) await explainWithout(command(found), sentence(found))
      })
    }

    /** The agent repairs what is gone: the command runs again until explain was asked before the repair. */
    async function explainWithout(command: string, sentence: string): Promise<void> {
      for (;;) {
        // It fails if the object has not come back since.
        await node.run('sh', '-c', command)
        const { code, value } = await explain('node', '10.96.0.10:80')
        if (!value.kernel.differences.includes(sentence)) continue
        assert.deepEqual([code, value.kernel.state], [1, 'differs'])
        return
      }
    }

    for (const { words, message } of [
      { words: ['web', '10.96.0.10:80'], message: /client: "web" is not an IP address: write node, or/u },
      { words: ['node', 'web:80'], message: /"web" is not an IP address: .* not a name/u },
      { words: ['node', '10.96.0.10'], message: /must be VIP:PORT/u },
      { words: ['node', '10.96.0.10:80/icmp'], message: /protocol "icmp" must be tcp, udp or sctp/u },
      { words: ['node', '10.96.0.10:70000'], message: /port 70000 is not from 1 to 65535/u },
      { words: ['fd00::1', '10.96.0.10:80'], message: /different IP families/u },
    ]) {
      it(`refuses ${words.join(' ')}`, async () => {
        const { code, stderr } = await run(...words)
        assert.equal(code, 2)
        assert.match(stderr, message)
      })
    }
  })
}

describe('the kernel without an object of a route', () => {
  const decided = plainRoute({
    clusterBackends: backends(8080, '10.1.0.1', '10.1.0.2'),
    localBackends: backends(8080, '10.1.0.1'),
    hasEndpoints: true,
    isExternallyAccessible: true,
    isExternalLocal: true,
    nodePort: 30080,
    externalIPs: [ip('192.0.2.7')],
    loadBalancerIPs: [ip('192.0.2.8')],
    sourceRanges: [cidr('203.0.113.0/24')],
  })

  it('in iptables mode', async () => {
    const subject = await openRealSubject()
    const client = subject.open()
    const tables = { nat: client.xtables('ipv4', 'nat'), filter: client.xtables('ipv4', 'filter') }
    const settings = makeSettings('ipv4', { withComments: true })
    const desired = compileRoute(decided, settings)
    const ledger = new IptablesLedger({ isBeside: false })
    ledger.setSkeleton(compileSkeleton(settings))
    ledger.claim(decided.key, desired)
    for (const table of ['nat', 'filter'] as const) await tables[table].apply(ledger.take(table))
    assert.deepEqual(await differences(desired, tables), [])
    assert.ok(desired.chains.length >= 4, `${desired.chains.length} chains`)
    const expected: string[] = []
    for (const { table, chain } of desired.chains) {
      await mustRun(['iptables-legacy', '-t', table, '-F', chain])
      expected.push(`${chain} of table ${table} has other rules`)
      assert.deepEqual((await differences(desired, tables)).toSorted(), expected.toSorted())
    }
    await subject.close()
  })

  it('in nftables mode', async () => {
    const kernel = openRealKernel()
    const settings: NftModeSettings = {
      family: 'ipv4',
      semantics: 'nftables',
      masqueradeMark: 0x4000,
      masqueradeAll: false,
      localDetector: undefined,
      nodePortAddresses: 'all',
      localhostNodePorts: false,
      nodeIP: undefined,
      nodeName: 'node-a',
    }
    const desired = compileTableRoute(decided, settings)
    const table = { family: 'ipv4', table: tableName } as const
    const elements = [...elementsOf(desired, 'ipv4')]
    const sets = new Map(elements.map(({ set }) => [set.set, set]))
    const { failures } = await kernel.nftables.apply([
      { op: 'add-table', table },
      ...[...sets.values()].map((set): NfOp => ({ op: 'add-set', set })),
      ...elements.map((element): NfOp => ({ op: 'add-elements', elements: packedElement(element) })),
    ])
    assert.deepEqual(failures, [])
    assert.deepEqual(await tableDifferences(desired, 'ipv4', kernel.nftables), [])
    const byText = new Map(elements.map((element) => [describeElement(element), element]))
    assert.ok(byText.size >= 8, `${byText.size} elements`)
    for (const [removed, element] of byText) {
      await mustRun(['nft', `delete ${removed}`])
      assert.deepEqual(await tableDifferences(desired, 'ipv4', kernel.nftables), [`${removed} is missing`])
      await kernel.nftables.apply([{ op: 'add-elements', elements: packedElement(element) }])
      assert.deepEqual(await tableDifferences(desired, 'ipv4', kernel.nftables), [])
    }
    await kernel.nftables.apply([{ op: 'delete-table', table }])
    await kernel.close()
  })

  it('in the local table of routes', async () => {
    const kernel = openRealKernel()
    const vip = ip('10.96.0.1')
    const ask = (): Promise<readonly string[]> => missingVips([vip], 'ipv4', kernel.routes)
    await mustRun(['ip', 'route', 'add', 'local', vip, 'dev', 'lo', 'table', 'local'])
    assert.deepEqual(await ask(), [])
    await mustRun(['ip', 'route', 'del', 'local', vip, 'dev', 'lo', 'table', 'local'])
    assert.deepEqual(await ask(), [`local route of ${vip} is missing`])
    await kernel.close()
  })
})
