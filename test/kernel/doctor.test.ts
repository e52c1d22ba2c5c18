// viaduct doctor: breakages of the machine and of the API server, made for real in this network namespace, or by a fake API server. Each is
// named with its cause and remedy, and a healthy node has no problem. out/transcripts/doctor.txt has the findings as the command prints them.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { requireFreshNamespace } from '../contract/fresh-namespace.js'
import { DoctorLab, hiddenChecks, sh } from '../support/doctor-lab.js'
import { mustRun, Program } from '../support/processes.js'
import { withNetAdminAlone, withReadOnlySettings } from '../support/rights.js'

requireFreshNamespace()

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

/** Rules, tables, interfaces, routes and settings of this namespace. */
const state = async (): Promise<string> =>
  await mustRun([
    'sh',
    '-c',
    'nft list ruleset; cat /proc/net/ip_tables_names; ip link; ip route show table all; sysctl -a 2>/dev/null | grep -E "forward|localnet|conntrack_tcp"',
  ])

describe('viaduct doctor', { timeout: 240_000 }, () => {
  const lab = new DoctorLab('doctor.txt')
  const lockFile = join(lab.folder, 'xtables.lock')
  const holder = createServer()
  let lockHolder: Program | undefined

  it('finds nothing on a healthy node', async () => {
    assert.deepEqual(await lab.problems(), { code: 0, found: [] })
  })

  it('leaves the rules and settings of the node as they are', async () => {
    const first = await state()
    for (const mode of ['iptables', 'nftables', 'userspace', 'ipvs'])
      await lab.run({ flags: [`--proxy-mode=${mode}`, '--iptables-flavour=legacy'] })
    assert.equal(await state(), first)
  })

  lab.names([
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
      what: 'a setting that the kernel does not have',
      options: {
        wrapper: [
          'unshare',
          '--mount',
          'sh',
          '-ec',
          'mount -t tmpfs none /proc/sys/net/netfilter; exec "$@"',
          'sh',
        ],
        flags: ['--conntrack-tcp-timeout-established=77s'],
      },
      check: 'kernel-settings',
      status: 'warning',
      seen: /^this kernel has no \/proc\/sys\/net\/netfilter\/nf_conntrack_tcp_timeout_established, /,
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
      what: 'a process without CAP_NET_ADMIN',
      options: { wrapper: ['setpriv', '--bounding-set=-net_admin', '--inh-caps=-net_admin'] },
      check: 'rights',
      status: 'broken',
      seen: /does not have CAP_NET_ADMIN/,
    },
    {
      // It was broken, with the advice to give the process CAP_NET_ADMIN, which it has.
      what: 'a process that may not open the modes',
      options: { wrapper: withNetAdminAlone() },
      check: 'mode',
      status: 'unknown',
      seen: /^whether nftables mode can run is not known: .*create a network namespace.*EPERM$/,
      remedy: /as root/,
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
      what: 'a lock of x_tables whose taker has ended',
      make: async () => {
        lockHolder = new Program(['sh', '-c', `exec 9>${lockFile}; flock 9; echo ready; cat`])
        await lockHolder.line((line) => line === 'ready')
      },
      undo: async () => await lockHolder?.kill(),
      options: { wrapper: ['env', `XTABLES_LOCKFILE=${lockFile}`] },
      check: 'xtables-lock',
      status: 'warning',
      seen: /^a child of the ended process \d+ holds .*xtables\.lock/,
    },
    {
      what: 'a lock of x_tables whose holder it cannot see',
      make: async () => {
        lockHolder = new Program(['flock', lockFile, 'sh', '-c', 'echo ready; cat'])
        await lockHolder.line((line) => line === 'ready')
      },
      undo: async () => await lockHolder?.kill(),
      options: {
        flags: ['--proxy-mode=iptables', '--iptables-flavour=legacy'],
        wrapper: ['env', `XTABLES_LOCKFILE=${lockFile}`, 'unshare', '--pid', '--fork', '--mount-proc'],
      },
      check: 'xtables-lock',
      status: 'unknown',
      seen: /^no process of this PID namespace holds .*xtables\.lock, and \/proc\/locks hides/,
    },
    {
      what: 'little memory',
      make: async () => {
        const text = readFileSync('/proc/meminfo', 'utf8').replace(
          /MemAvailable:.*/u,
          'MemAvailable:   65536 kB',
        )
        await writeFile(join(lab.folder, 'meminfo'), text)
      },
      options: { wrapper: withFile(join(lab.folder, 'meminfo'), '/proc/meminfo') },
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
      seen: /the name of the server has no address: .*no-such-host\.invalid/,
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
  ])

  // mode, rights, server-ports and api-server were broken, kernel-settings and node-port-programs a warning: of an agent that works.
  it('is unknown, not broken, what a user without rights cannot know', async () => {
    const kubeconfig = join(lab.folder, 'kubeconfig')
    await writeFile(kubeconfig, '', { mode: 0o600 })
    const [health, nodePort] = [createServer().listen(10_256), createServer().listen(30_080)]
    try {
      const { code, found } = await lab.problems({
        wrapper: ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups'],
        flags: ['--kubeconfig', kubeconfig, '--conntrack-tcp-timeout-established=77s'],
      })
      const certain = found.filter(({ status }) => status !== 'unknown')
      assert.deepEqual({ code, certain }, { code: 0, certain: [] })
      assert.deepEqual(
        new Set(found.map(({ check }) => check)),
        new Set(
          (
            'mode iptables-flavour kernel-settings leftovers other-proxies mark-bits nat-order forward rights ' +
            'server-ports node-port-programs bridge-filter api-server rbac node-object clock'
          ).split(' '),
        ),
      )
    } finally {
      health.close()
      nodePort.close()
    }
  })

  it('prints text and YAML, and refuses another format', async () => {
    const fine =
      hiddenChecks.size === 0
        ? /^ok {7}3[01] of 31: agent, mode, /mu
        : /^ok {7}(?:29|30) of 31: agent, mode, /mu
    assert.match((await lab.run({ flags: ['--output=table'] })).stdout, fine)
    assert.match((await lab.run({ flags: ['-o', 'yaml'] })).stdout, /^- check: agent\n {2}status: ok\n/u)
    const { code, stderr } = await lab.run({ flags: ['-o', 'xml'] })
    assert.deepEqual([code, stderr], [2, 'viaduct: -o: must be one of table, json, yaml, not "xml"\n'])
  })

  it('asks the kernel whether the clock of this machine is synchronized', async () => {
    const { stdout } = await lab.run({ flags: ['--all'] })
    assert.match(
      stdout,
      /^(?:ok {7}clock-sync: the kernel counts the clock as|warning  clock-sync: the kernel counts the clock as not) synchronized$/mu,
    )
  })

  it('refuses a wrong flag', async () => {
    const { code, stderr } = await lab.run({ flags: ['--no-such-flag'] })
    assert.deepEqual([code, stderr], [2, 'viaduct: unknown flag --no-such-flag (see viaduct --help)\n'])
  })
})
