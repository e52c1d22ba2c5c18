// Checks of files that a network namespace of a test cannot change.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { diagnose } from '../../../src/doctor/index.js'
import { examinedNode } from '../../support/examined-node.js'

describe('the check of connection tracking', () => {
  const cases = [
    { count: 10, max: 100, status: 'ok' },
    { count: 79, max: 100, status: 'ok' },
    { count: 80, max: 100, status: 'warning' },
    { count: 95, max: 100, status: 'broken' },
    { count: 0, max: 0, status: 'ok' },
  ]
  it('is ok without connection tracking', async () => {
    const findings = await diagnose(examinedNode({}))
    const found = findings.find(({ check }) => check === 'conntrack')
    assert.deepEqual([found?.status, found?.seen], ['ok', 'connection tracking is not loaded'])
  })
  for (const { count, max, status } of cases) {
    it(`is ${status} with ${count} of ${max} connections`, async () => {
      const place = '/proc/sys/net/netfilter/nf_conntrack_'
      const findings = await diagnose(
        examinedNode({ [`${place}count`]: `${count}\n`, [`${place}max`]: `${max}\n` }),
      )
      assert.deepEqual(
        findings.filter(({ check }) => check === 'conntrack').map((found) => found.status),
        [status],
      )
    })
  }
})

describe('the check of lost connections', () => {
  const counters = 'entries  drop early_drop\n00000001  0000000a 00000000\n00000001  00000006 00000002\n'
  const quiet = 'entries  drop early_drop\n00000001  00000000 00000000\n'
  const stat = '/proc/net/stat/nf_conntrack'
  const cases = [
    { files: {}, status: 'ok', seen: /not loaded/ },
    { files: { [stat]: quiet }, status: 'ok', seen: /no packet/ },
    { files: { [stat]: counters }, status: 'warning', seen: /16 packets, and 2/ },
    { files: { [stat]: 'entries\n' }, status: 'unknown', seen: /no column drop/ },
    {
      files: { '/proc/sys/net/netfilter/nf_conntrack_count': '7\n' },
      status: 'unknown',
      seen: /^this kernel has no \/proc\/net\/stat\/nf_conntrack$/,
    },
  ]
  for (const { files, status, seen } of cases) {
    it(`is ${status}: ${seen.source}`, async () => {
      const findings = (await diagnose(examinedNode(files))).filter(
        ({ check }) => check === 'conntrack-drops',
      )
      assert.deepEqual(
        findings.map((found) => found.status),
        [status],
      )
      assert.match(findings[0]?.seen ?? '', seen)
    })
  }
})

const refusal = async (): Promise<never> => await Promise.reject(new Error('EACCES: permission denied'))

describe('a file that cannot be read', () => {
  const checks = ['conntrack', 'conntrack-drops', 'node-port-range', 'reverse-path', 'open-files'].concat([
    'kernel-settings',
    'memory',
    'rights',
  ])
  for (const check of checks)
    it(`makes ${check} unknown, not ok`, async () => {
      const found = (await diagnose({ ...examinedNode({}), read: refusal })).filter(
        (each) => each.check === check,
      )
      assert.deepEqual(
        found.map(({ status, seen }) => [status, seen]),
        [['unknown', 'EACCES: permission denied']],
      )
    })

  for (const check of ['node-port-range', 'reverse-path', 'open-files', 'memory', 'rights'])
    it(`makes ${check} unknown if it is not there`, async () => {
      const found = (await diagnose(examinedNode({}))).filter((each) => each.check === check)
      assert.deepEqual(
        found.map(({ status }) => status),
        ['unknown'],
      )
    })
})

describe('the check of memory', () => {
  const agent = { pid: 7, name: 'node', command: '/usr/bin/node /opt/viaduct/dist/agent.js --v=2' }
  const meminfo = { '/proc/meminfo': 'MemTotal: 9 kB\nMemAvailable:     1048576 kB\n' }
  const place = '/sys/fs/cgroup/pods/viaduct'
  const group = { ...meminfo, '/proc/7/cgroup': '0::/pods/viaduct\n' }
  const cases = [
    { files: meminfo, status: 'ok', seen: /^1024 MiB available$/ },
    {
      files: { '/proc/meminfo': 'MemAvailable: 1024 kB\n' },
      status: 'warning',
      seen: /^this machine has 1 MiB/,
    },
    { files: { '/proc/meminfo': '' }, status: 'unknown', seen: /no MemAvailable/ },
    { files: group, status: 'ok', seen: /available/ },
    {
      files: { ...group, [`${place}/memory.max`]: 'max\n', [`${place}/memory.current`]: '99999999\n' },
      status: 'ok',
      seen: /available/,
    },
    {
      files: { ...group, [`${place}/memory.max`]: '104857600\n', [`${place}/memory.current`]: '94371840\n' },
      status: 'warning',
      seen: /^the cgroup of the agent \(pid 7\) uses 90 MiB of 100 MiB$/,
    },
  ]
  for (const { files, status, seen } of cases) {
    it(`is ${status}: ${seen.source}`, async () => {
      const findings = await diagnose({ ...examinedNode(files), processes: [agent] })
      const found = findings.filter(({ check }) => check === 'memory')
      assert.deepEqual(
        found.map((each) => each.status),
        [status],
      )
      assert.match(found[0]?.seen ?? '', seen)
    })
  }
})

/** The kernel's answer; undefined: it refuses. */
function answering(bits: number | undefined): () => number {
  return () => {
    if (bits === undefined) throw new Error('EPERM')
    return bits
  }
}

describe('the check of the clock, by its status bits', () => {
  const cases = [
    { bits: 0x0000, status: 'ok', seen: /as synchronized$/ },
    // STA_PLL and STA_NANO
    { bits: 0x2001, status: 'ok', seen: /as synchronized$/ },
    // STA_UNSYNC
    { bits: 0x0040, status: 'warning', seen: /as not synchronized$/ },
    { bits: 0x2041, status: 'warning', seen: /as not synchronized$/ },
    { bits: undefined, status: 'unknown', seen: /^EPERM/ },
  ]
  for (const { bits, status, seen } of cases) {
    it(`is ${status} for ${bits === undefined ? 'a refusal' : `0x${bits.toString(16)}`}`, async () => {
      const node = examinedNode({})
      const clockStatus = answering(bits)
      const findings = await diagnose({ ...node, kernel: { ...node.kernel, clockStatus } })
      const [found] = findings.filter(({ check }) => check === 'clock-sync')
      assert.equal(found?.status, status)
      assert.match(found.seen, seen)
    })
  }
})

describe('the check of the lock of x_tables', () => {
  const held = '1: FLOCK  ADVISORY  WRITE 42 00:19:77 0 EOF\n'
  const cases = [
    { what: 'that another file has', looks: [held.replace(':77', ':78')], status: 'ok', seen: /^nothing/ },
    {
      what: 'that others wait for',
      looks: [held.replace('FLOCK', '-> FLOCK')],
      status: 'ok',
      seen: /^nothing/,
    },
    { what: 'of a moment', looks: [held, held, ''], status: 'ok', seen: /for a moment$/ },
    { what: 'of two holders', looks: [held, held.replace('42', '43')], status: 'ok', seen: /for a moment$/ },
    {
      what: 'of one holder',
      looks: [held],
      status: 'warning',
      seen: /^iptables \(pid 42\) holds .* in 5 looks/,
    },
    {
      what: 'of a process that has ended',
      looks: [held.replace('42', '43')],
      status: 'warning',
      seen: /^a child of the ended process 43 holds .* in 5 looks/,
    },
    {
      what: 'without a holder here',
      looks: [''],
      seesAll: false,
      status: 'unknown',
      seen: /hides the holders/,
    },
    {
      what: 'without a holder here that the mode does not take',
      looks: [''],
      seesAll: false,
      chosen: 'iptables (nft)',
      status: 'ok',
      seen: /^no process of this PID namespace holds it$/,
    },
    {
      what: 'of one holder here',
      looks: [held],
      seesAll: false,
      status: 'warning',
      seen: /^iptables \(pid 42\)/,
    },
  ]
  for (const { what, looks, seesAll = true, chosen = 'iptables (legacy)', status, seen } of cases) {
    it(`is ${status} for a lock ${what}`, async () => {
      let look = 0
      const node = examinedNode({ '/proc/42/comm': 'iptables\n' })
      const [found] = (
        await diagnose({
          ...node,
          modes: { ...node.modes, chosen },
          seesAllProcesses: seesAll,
          xtablesLock: { path: '/run/xtables.lock', id: '00:19:77' },
          read: async (path) =>
            path === '/proc/locks' ? looks[Math.min(look++, looks.length - 1)] : await node.read(path),
        })
      ).filter(({ check }) => check === 'xtables-lock')
      assert.equal(found?.status, status)
      assert.match(found.seen, seen)
    })
  }
})

it('reports virtual servers that another mode left', async () => {
  const text =
    'IP Virtual Server version 1.2.1 (size=4096)\nProt LocalAddress:Port Scheduler Flags\n  -> RemoteAddress:Port\n' +
    'TCP  0A600001:01BB rr\n  -> 0A000001:192B      Masq    1      0          0\n'
  const node = examinedNode({ '/proc/net/ip_vs': text })
  const kernel = { ...node.kernel, activeChains: async () => await Promise.resolve([]) }
  const leftovers = async (): Promise<readonly string[]> =>
    (await diagnose({ ...node, kernel })).filter(({ check }) => check === 'leftovers').map(({ seen }) => seen)
  // Of another program, such as keepalived.
  assert.deepEqual(await leftovers(), ['no objects of another mode'])
  await kernel.links.addDummy('kube-ipvs0')
  assert.deepEqual(await leftovers(), [
    'IPVS has 1 virtual servers, and there are the sets or the device of a proxy in ipvs mode',
  ])
})

it('finds listeners in /proc/net where a question would load modules', async () => {
  const files = {
    '/proc/net/tcp': listeners('0100007F:2810 00000000:0000 0A', '0100007F:7580 0100007F:9999 01'),
    '/proc/net/tcp6': listeners(
      '00000000000000000000000000000000:7580 00000000000000000000000000000000:0000 0A',
    ),
  }
  const findings = await diagnose({ ...examinedNode(files), canAskSockets: false })
  const found = findings.filter(
    ({ check }) => check.startsWith('server-ports') || check === 'node-port-programs',
  )
  assert.deepEqual(
    found.map(({ status, seen }) => [status, seen]),
    [
      ['broken', 'TCP port 10256 belongs to an unknown program'],
      ['warning', 'TCP port 30080 belongs to an unknown program'],
    ],
  )
})

describe('the program that listens on a port of the agent', () => {
  const files = { '/proc/net/tcp': listeners('0100007F:2810 00000000:0000 0A') }
  const hidden = { pid: 7, name: 'node' }
  const cases = [
    { what: 'is not an agent', node: {}, status: 'broken' },
    // It was broken, also where it was the agent.
    {
      what: 'is one of another PID namespace, or the agent',
      node: { seesAllProcesses: false },
      status: 'unknown',
    },
    { what: 'is hidden, or the agent', node: { unplacedProcesses: [hidden] }, status: 'unknown' },
  ]
  for (const { what, node, status } of cases)
    it(`makes server-ports ${status} if it ${what}`, async () => {
      const findings = await diagnose({ ...examinedNode(files), canAskSockets: false, ...node })
      assert.deepEqual(
        findings.filter(({ check }) => check === 'server-ports').map((found) => found.status),
        [status],
      )
    })
})

describe('the rights of a process without CAP_NET_ADMIN', () => {
  const cases = [
    { user: 'root', ids: '0\t0\t0\t0', status: 'broken' },
    // It was broken: the agent of this user would be one of root.
    { user: 'another user', ids: '1000\t1000\t1000\t1000', status: 'unknown' },
  ]
  for (const { user, ids, status } of cases)
    it(`are ${status} for ${user}`, async () => {
      const files = { '/proc/self/status': `Uid:\t${ids}\nCapEff:\t0000000000000000\n` }
      const findings = await diagnose(examinedNode(files))
      assert.deepEqual(
        findings.filter(({ check }) => check === 'rights').map((found) => found.status),
        [status],
      )
    })
})

describe('the rights of a process with CAP_NET_ADMIN alone', () => {
  const cases = [
    { mode: 'iptables', status: 'ok' },
    // It was ok, while every port below 1024 was refused.
    { mode: 'userspace', status: 'broken' },
  ] as const
  for (const { mode, status } of cases)
    it(`are ${status} in ${mode} mode`, async () => {
      const files = { '/proc/self/status': 'Uid:\t0\t0\t0\t0\nCapEff:\t0000000000001000\n' }
      const node = examinedNode(files)
      const findings = await diagnose({ ...node, config: { ...node.config, mode } })
      assert.deepEqual(
        findings.filter(({ check }) => check === 'rights').map((found) => found.status),
        [status],
      )
    })
})

/** The text of /proc/net/tcp with these sockets. */
function listeners(...sockets: readonly string[]): string {
  const lines = sockets.map(
    (socket, index) => `   ${index}: ${socket} 00000000:00000000 00:00000000 00000000     0`,
  )
  return [
    '  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid',
    ...lines,
    '',
  ].join('\n')
}

it('goes on after a check that fails, which is unknown', async () => {
  const findings = await diagnose(examinedNode({}))
  const [found] = findings.filter(({ check }) => check === 'nat-order')
  assert.deepEqual([found?.status, found?.seen], ['unknown', 'not here'])
  assert.equal(findings.find(({ check }) => check === 'configuration')?.status, 'ok')
})
