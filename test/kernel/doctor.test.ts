// viaduct doctor: breakages made for real in this network namespace, or by a fake API server. Each is named with its cause and remedy,
// and a healthy node has no problem. out/transcripts/doctor.txt has the findings as the command prints them.
import assert from 'node:assert/strict'
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { type Static, Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { printFindings } from '../../src/doctor/index.js'
import { requireFreshNamespace } from '../contract/fresh-namespace.js'
import { apiNode } from '../support/api-documents.js'
import { FakeApiServer, type FakeApiOptions } from '../support/fake-api-server.js'
import { mustRun, Program, runToEnd, type Finished } from '../support/processes.js'
import { withReadOnlySettings } from '../support/rights.js'
import { treeRoot } from '../support/tree.js'

requireFreshNamespace()

/** A heading and a finding for each breakage. */
const transcript: string[] = []

const server = new FakeApiServer()
const folder = mkdtempSync(join(tmpdir(), 'viaduct-doctor-'))

before(async () => {
  await server.listen()
  server.store.put('Node', apiNode('node-a'))
  // The first one is off in a new namespace; the other tests begin with a healthy node.
  await mustRun(['sh', '-c', 'echo 1 > /proc/sys/net/ipv4/ip_forward'])
})
after(async () => {
  await server.close()
  mkdirSync(join(treeRoot, 'out/transcripts'), { recursive: true })
  writeFileSync(join(treeRoot, 'out/transcripts/doctor.txt'), transcript.join('\n'))
  rmSync(folder, { recursive: true })
})

/** The limits belong to the initial namespace. */
const conntrackOff = [
  '--conntrack-max-per-core=0',
  '--conntrack-tcp-timeout-established=0s',
  '--conntrack-tcp-timeout-close-wait=0s',
]

interface Options {
  readonly flags?: readonly string[]
  readonly wrapper?: readonly string[]
  readonly master?: string
}

const usualFlags = (master: string): readonly string[] => [
  '--master',
  master,
  '--hostname-override=node-a',
  '--proxy-mode=nftables',
  ...conntrackOff,
]

async function doctor({ flags = [], wrapper = [], master = server.url.href }: Options): Promise<Finished> {
  const agent = [
    process.execPath,
    join(treeRoot, 'dist/agent.js'),
    'doctor',
    '-o',
    'json',
    '--socket',
    join(folder, 'none'),
  ]
  return await runToEnd([...wrapper, ...agent, ...usualFlags(master), ...flags])
}

const Found = Type.Object({
  check: Type.String(),
  status: Type.String(),
  seen: Type.String(),
  cause: Type.Optional(Type.String()),
  remedy: Type.Optional(Type.String()),
})
type Found = Static<typeof Found>

/** The findings that are problems, and the exit code. */
async function problems(
  options: Options = {},
): Promise<{ readonly code: number | undefined; readonly found: readonly Found[] }> {
  const { code, stdout, stderr } = await doctor(options)
  assert.equal(stderr, '')
  const findings = Value.Parse(Type.Array(Found), JSON.parse(stdout))
  return { code, found: findings.filter(({ status }) => status !== 'ok') }
}

interface Breakage {
  readonly what: string
  readonly make?: () => Promise<unknown>
  readonly undo?: () => Promise<unknown>
  readonly options?: Options
  readonly server?: FakeApiOptions
  readonly check: string
  readonly status: 'broken' | 'warning' | 'unknown'
  readonly seen: RegExp
}

const sh = async (script: string): Promise<unknown> => await mustRun(['sh', '-ec', script])
const holder = createServer()
const lockFile = join(folder, 'xtables.lock')
let lockHolder: Program | undefined

/** A wrapper that runs the script in a network namespace of its own before the program. */
function inNewNamespace(script: string): readonly string[] {
  return ['unshare', '--net', 'sh', '-ec', `${script}\nexec "$@"`, 'sh']
}

/** A wrapper that shows the program the file at `place`. */
function withFile(file: string, place: string): readonly string[] {
  return ['unshare', '--mount', 'sh', '-ec', `mount --bind ${file} ${place}\nexec "$@"`, 'sh']
}

/** A packet from an address that the node reaches by no interface. */
const spoofedPacket = `ip link set lo up
ip link add v0 type veth peer name v1 address 02:00:00:00:00:01
ip address add 192.0.2.1/24 dev v1
ip link set v0 up
ip link set v1 up
echo 1 > /proc/sys/net/ipv4/conf/v1/rp_filter
python3 - << 'END'
import socket, struct
header = struct.pack('!BBHHHBBH4s4s', 0x45, 0, 28, 1, 0, 64, 17, 0, socket.inet_aton('198.51.100.1'), socket.inet_aton('192.0.2.1'))
words = struct.unpack('!10H', header)
total = sum(words)
total = (total & 0xffff) + (total >> 16)
header = header[:10] + struct.pack('!H', ~total & 0xffff) + header[12:]
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
wire.bind(('v0', 0))
wire.send(bytes.fromhex('020000000001') + bytes(6) + b'\\x08\\x00' + header + struct.pack('!HHHH', 9, 9, 8, 0))
END`

let impostor: Program | undefined

const breakages: readonly Breakage[] = [
  {
    what: 'IP forwarding is off',
    make: () => sh('echo 0 > /proc/sys/net/ipv4/ip_forward'),
    undo: () => sh('echo 1 > /proc/sys/net/ipv4/ip_forward'),
    check: 'kernel-settings',
    status: 'broken',
    seen: /ip_forward is 0/,
  },
  {
    what: 'a setting that cannot be written',
    options: { wrapper: withReadOnlySettings, flags: ['--conntrack-tcp-timeout-established=77s'] },
    check: 'kernel-settings',
    status: 'warning',
    seen: /nf_conntrack_tcp_timeout_established is not 77/,
  },
  {
    what: 'a kernel without the configured mode',
    options: { flags: ['--proxy-mode=ipvs'] },
    check: 'mode',
    status: 'warning',
    seen: /runs instead: ipvs mode/,
  },
  {
    what: 'a kernel without the configured mode, and no fallback',
    options: { flags: ['--proxy-mode=ipvs', '--mode-fallback=false'] },
    check: 'mode',
    status: 'broken',
    seen: /no IP_VS/,
  },
  {
    what: 'a running kube-proxy',
    make: async () => {
      copyFileSync('/bin/cat', join(folder, 'kube-proxy'))
      impostor = new Program([join(folder, 'kube-proxy')])
      impostor.write('ready\n')
      await impostor.line((line) => line === 'ready')
    },
    undo: async () => await impostor?.kill(),
    check: 'kube-proxy-process',
    status: 'broken',
    seen: /kube-proxy runs \(pid \d+\)/,
  },
  {
    what: "kube-proxy's chains in the legacy tables",
    make: () => sh('iptables-legacy -t nat -N KUBE-SERVICES'),
    undo: () => sh('iptables-legacy -t nat -X KUBE-SERVICES'),
    check: 'leftovers',
    status: 'warning',
    seen: /1 chains of kube-proxy in the legacy tables/,
  },
  {
    what: 'a table of a proxy in nftables mode',
    make: () => sh("nft 'add table ip kube-proxy; add chain ip kube-proxy services'"),
    undo: () => sh('nft delete table ip kube-proxy'),
    options: { flags: ['--proxy-mode=userspace'] },
    check: 'leftovers',
    status: 'warning',
    seen: /table kube-proxy with 1 chains/,
  },
  {
    what: 'a legacy rule that sets our mark bit',
    make: () => sh('iptables-legacy -t mangle -A PREROUTING -p tcp -j MARK --or-mark 0x4000'),
    undo: () => sh('iptables-legacy -t mangle -F'),
    check: 'mark-bits',
    status: 'warning',
    seen: /rule 1 of chain PREROUTING of table ip mangle in the legacy tables sets the mark bits 0x4000/,
  },
  {
    what: 'an nft rule that matches our mark bit',
    make: () =>
      sh(
        "nft 'add table inet mine; add chain inet mine c; add rule inet mine c meta mark & 0x4000 == 0x4000 accept'",
      ),
    undo: () => sh('nft delete table inet mine'),
    check: 'mark-bits',
    status: 'warning',
    seen: /rule 1 of chain c of table inet mine in nf_tables matches the mark bits 0x4000/,
  },
  {
    what: 'an nft rule that sets our mark bit',
    make: () =>
      sh(
        "nft 'add table ip6 mine; add chain ip6 mine c; add rule ip6 mine c meta mark set meta mark or 0x8000'",
      ),
    undo: () => sh('nft delete table ip6 mine'),
    check: 'mark-bits',
    status: 'warning',
    seen: /table ip6 mine in nf_tables sets the mark bits 0x8000/,
  },
  {
    what: 'a nat chain before ours',
    make: () =>
      sh("nft 'add table ip early; add chain ip early pre { type nat hook prerouting priority -110; }'"),
    undo: () => sh('nft delete table ip early'),
    check: 'nat-order',
    status: 'warning',
    seen: /chain pre of table ip early in nf_tables has priority -110/,
  },
  {
    what: 'a chain at hook forward that drops',
    make: () =>
      sh(
        "nft 'add table inet wall; add chain inet wall forward { type filter hook forward priority 0; policy drop; }'",
      ),
    undo: () => sh('nft delete table inet wall'),
    check: 'forward',
    status: 'warning',
    seen: /chain forward of inet wall forward drops by its policy/,
  },
  {
    what: 'the policy DROP of the legacy FORWARD',
    make: () => sh('iptables-legacy -P FORWARD DROP'),
    undo: () => sh('iptables-legacy -P FORWARD ACCEPT'),
    check: 'forward',
    status: 'warning',
    seen: /FORWARD of the legacy table ip filter drops/,
  },
  {
    what: 'a process without CAP_NET_ADMIN',
    options: { wrapper: ['setpriv', '--bounding-set=-net_admin', '--inh-caps=-net_admin'] },
    check: 'rights',
    status: 'broken',
    seen: /does not have CAP_NET_ADMIN/,
  },
  {
    what: 'few open files',
    options: { wrapper: ['prlimit', '--nofile=512'] },
    check: 'open-files',
    status: 'warning',
    seen: /may open 512 files/,
  },
  {
    what: 'a program on the health port',
    make: async () => await new Promise<void>((resolve) => holder.listen(10_256, '127.0.0.1', resolve)),
    undo: async () => await new Promise((resolve) => holder.close(resolve)),
    check: 'server-ports',
    status: 'broken',
    seen: /TCP port 10256 belongs to/,
  },
  {
    what: 'a program on a node port',
    make: async () => await new Promise<void>((resolve) => holder.listen(30_080, '127.0.0.1', resolve)),
    undo: async () => await new Promise((resolve) => holder.close(resolve)),
    check: 'node-port-programs',
    status: 'warning',
    seen: /TCP port 30080 belongs to/,
  },
  {
    what: 'outgoing connections from node ports',
    make: () => sh('echo "30000 60999" > /proc/sys/net/ipv4/ip_local_port_range'),
    undo: () => sh('echo "32768 60999" > /proc/sys/net/ipv4/ip_local_port_range'),
    check: 'node-port-range',
    status: 'warning',
    seen: /node ports 30000 to 32767/,
  },
  {
    what: 'rules in both flavours of x_tables',
    make: () => sh('iptables-legacy -A INPUT -i lo -j ACCEPT; iptables-nft -A INPUT -i lo -j ACCEPT'),
    undo: () => sh('iptables-legacy -F INPUT; iptables-nft -F INPUT; nft delete table ip filter'),
    check: 'iptables-flavour',
    status: 'warning',
    seen: /^1 rules of iptables are in nf_tables and 1 in the legacy tables/,
  },
  {
    what: "kube-router's service proxy",
    make: () => sh('ip link add kube-dummy-if type bridge'),
    undo: () => sh('ip link delete kube-dummy-if'),
    check: 'other-proxies',
    status: 'broken',
    seen: /the link kube-dummy-if: kube-router serves Services/,
  },
  {
    what: "Antrea's proxyAll",
    make: () => sh('ipset create ANTREA-NODEPORT-IP hash:ip'),
    undo: () => sh('ipset destroy ANTREA-NODEPORT-IP'),
    check: 'other-proxies',
    status: 'broken',
    seen: /the set ANTREA-NODEPORT-IP: Antrea serves all Services/,
  },
  {
    what: 'Cilium, of which the mode is not known',
    make: () => sh('ip link add cilium_host type bridge'),
    undo: () => sh('ip link delete cilium_host'),
    check: 'other-proxies',
    status: 'unknown',
    seen: /the link cilium_host: Cilium runs/,
  },
  {
    what: 'a strict reverse path filter that drops packets',
    options: { wrapper: inNewNamespace(spoofedPacket) },
    check: 'reverse-path',
    status: 'warning',
    seen: /dropped 1 packets; it is strict on .*v1/,
  },
  {
    what: 'a program that keeps the lock of x_tables',
    make: async () => {
      lockHolder = new Program(['flock', lockFile, 'sh', '-c', 'echo ready; cat'])
      await lockHolder.line((line) => line === 'ready')
    },
    undo: async () => await lockHolder?.kill(),
    options: { wrapper: ['env', `XTABLES_LOCKFILE=${lockFile}`] },
    check: 'xtables-lock',
    status: 'warning',
    seen: /flock \(pid \d+\) holds .*xtables\.lock: in 5 looks over 0\.8 s/,
  },
  {
    what: 'little memory',
    make: async () => {
      const text = readFileSync('/proc/meminfo', 'utf8').replace(
        /MemAvailable:.*/u,
        'MemAvailable:   65536 kB',
      )
      await writeFile(join(folder, 'meminfo'), text)
    },
    options: { wrapper: withFile(join(folder, 'meminfo'), '/proc/meminfo') },
    check: 'memory',
    status: 'warning',
    seen: /this machine has 64 MiB available/,
  },
  {
    what: 'an unknown feature gate',
    options: { flags: ['--feature-gates=NoSuchGate=true'] },
    check: 'configuration',
    status: 'warning',
    seen: /unknown feature gates have no effect: NoSuchGate/,
  },
  {
    what: 'an API server whose name has no address',
    options: { master: 'http://no-such-host.invalid:6443' },
    check: 'api-server',
    status: 'broken',
    seen: /the name no-such-host.invalid has no address/,
  },
  {
    what: 'a kubeconfig that is not there',
    options: { flags: ['--kubeconfig=/no/such/file'] },
    check: 'api-server',
    status: 'broken',
    seen: /\/no\/such\/file/,
  },
  {
    what: 'an API server that is not there',
    options: { master: 'http://127.0.0.1:9' },
    check: 'api-server',
    status: 'broken',
    seen: /ECONNREFUSED/,
  },
  {
    what: 'credentials that the API server refuses',
    server: { authorization: 'Bearer other' },
    check: 'api-server',
    status: 'broken',
    seen: /401/,
  },
  {
    what: 'rights that are missing',
    server: { denied: ['watch endpointslices'] },
    check: 'rbac',
    status: 'broken',
    seen: /does not allow: watch discovery.k8s.io\/endpointslices/,
  },
  {
    what: 'a node name without a Node',
    options: { flags: ['--hostname-override=node-b'] },
    check: 'node-object',
    status: 'broken',
    seen: /no Node node-b/,
  },
  {
    what: 'a clock that is wrong',
    server: { dateOffsetMs: 3_600_000 },
    check: 'clock',
    status: 'warning',
    seen: /3[56]\d\d s behind/,
  },
]

/** Rules, tables, interfaces, routes and settings of this namespace. */
const state = async (): Promise<string> =>
  await mustRun([
    'sh',
    '-c',
    'nft list ruleset; cat /proc/net/ip_tables_names; ip link; ip route show table all; sysctl -a 2>/dev/null | grep -E "forward|localnet|conntrack_tcp"',
  ])

describe('viaduct doctor', { timeout: 240_000 }, () => {
  it('finds nothing on a healthy node', async () => {
    assert.deepEqual(await problems(), { code: 0, found: [] })
  })

  it('leaves the rules and settings of the node as they are', async () => {
    const first = await state()
    for (const mode of ['iptables', 'nftables', 'userspace', 'ipvs'])
      await doctor({ flags: [`--proxy-mode=${mode}`, '--iptables-flavour=legacy'] })
    assert.equal(await state(), first)
  })

  for (const { what, make, undo, options = {}, server: other = {}, check, status, seen } of breakages) {
    it(`names ${what}`, async () => {
      await make?.()
      server.options = other
      try {
        const { code, found } = await problems(options)
        const finding = found.find((each) => each.check === check && seen.test(each.seen))
        assert.ok(finding !== undefined, JSON.stringify(found, undefined, 2))
        assert.equal(finding.status, status)
        const { cause = '', remedy = '' } = finding
        assert.match(cause, /\.$/)
        assert.match(remedy, /\.$/)
        const shown = { check, status, seen: finding.seen, cause, remedy }
        transcript.push(`== ${what} (exit code ${code})\n${printFindings([shown], true)}`)
        if (status === 'broken') assert.equal(code, 1)
      } finally {
        server.options = {}
        await undo?.()
      }
    })
  }

  it('prints text and YAML, and refuses another format', async () => {
    assert.match((await doctor({ flags: ['--output=table'] })).stdout, /^ok {7}26 of 26: agent, mode, /u)
    assert.match((await doctor({ flags: ['-o', 'yaml'] })).stdout, /^- check: agent\n {2}status: ok\n/u)
    const { code, stderr } = await doctor({ flags: ['-o', 'xml'] })
    assert.deepEqual([code, stderr], [2, 'viaduct: -o: must be one of table, json, yaml, not "xml"\n'])
  })

  it('watches: prints each problem that begins or ends, and ends with the state of the last run', async () => {
    const words = [
      '--watch',
      '--interval=1',
      '--socket',
      join(folder, 'none'),
      ...usualFlags(server.url.href),
    ]
    const watch = new Program([process.execPath, join(treeRoot, 'dist/agent.js'), 'doctor', ...words])
    await watch.line((line) => line.startsWith('ok '))
    await sh('ip link add kube-dummy-if type bridge')
    try {
      await watch.line((line) => line.startsWith('broken   other-proxies: there is the link kube-dummy-if'))
    } finally {
      await sh('ip link delete kube-dummy-if')
    }
    await watch.line((line) => line.startsWith('ended    other-proxies: there is the link kube-dummy-if'))
    watch.signal('SIGINT')
    assert.equal((await watch.ended).code, 0)
    assert.equal(watch.lines.filter((line) => line.startsWith('ok ')).length, 1)
  })

  it('watches: ends with 1 while something is broken', async () => {
    const words = ['--watch', '--socket', join(folder, 'none'), ...usualFlags('http://127.0.0.1:9')]
    const watch = new Program([process.execPath, join(treeRoot, 'dist/agent.js'), 'doctor', ...words])
    await watch.line((line) => line.startsWith('ok '))
    watch.signal('SIGINT')
    assert.equal((await watch.ended).code, 1)
  })

  it('refuses a wrong flag', async () => {
    const { code, stderr } = await doctor({ flags: ['--no-such-flag'] })
    assert.deepEqual([code, stderr], [2, 'viaduct: unknown flag --no-such-flag (see viaduct --help)\n'])
  })
})
