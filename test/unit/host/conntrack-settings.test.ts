// The kernel settings of connection tracking: the written values, and the errors of the writes.
import assert from 'node:assert/strict'
import { constants, availableParallelism, tmpdir } from 'node:os'
import { describe, it, after, before } from 'node:test'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type ConfigInput, resolveConfig } from '../../../src/config/index.js'
import type { EventReport } from '../../../src/event.js'
import { openModelKernel } from '../../model/index.js'
import { setConntrack, countCpus, isSysfsReadOnly } from '../../../src/host/index.js'
import { MemoryLog } from '../../support/pipeline-lab.js'

/** Default values of a kernel, below net/netfilter/nf_conntrack_. */
const fresh = {
  max: '262144',
  buckets: '65536',
  tcp_timeout_established: '432000',
  tcp_timeout_close_wait: '60',
  tcp_be_liberal: '0',
  udp_timeout: '30',
  udp_timeout_stream: '120',
}
type Values = Readonly<Partial<Record<keyof typeof fresh, string>>>

const defaults: Values = { tcp_timeout_established: '86400', tcp_timeout_close_wait: '3600' }

function prefixed(values: Values): Record<string, string> {
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => [`net/netfilter/nf_conntrack_${name}`, value]),
  )
}

function openNode(values: Values = fresh) {
  const kernel = openModelKernel({ sysctls: prefixed(values) })
  const log = new MemoryLog()
  const recorded: EventReport[] = []
  const mounts = { isSysfsReadOnly: false }
  const start = async (input: ConfigInput['conntrack'] = {}, cpus = 2): Promise<void> => {
    const { conntrack: config } = resolveConfig({ manifests: 'm', conntrack: input })
    await setConntrack({
      config,
      cpus,
      kernel,
      log,
      events: { record: (event) => void recorded.push(event) },
      nodeName: 'here',
      isSysfsReadOnly: async () => mounts.isSysfsReadOnly,
    })
  }
  return { kernel, log, start, recorded, mounts }
}

describe('F-073 conntrack settings', () => {
  const cases: readonly {
    readonly name: string
    readonly input?: ConfigInput['conntrack']
    readonly cpus?: number
    readonly before?: Values
    /** Values that differ from the defaults. */
    readonly expected: Values
  }[] = [
    { name: 'a small machine gets the minimum', before: { max: '65536' }, expected: { max: '131072' } },
    { name: 'a larger limit stays', expected: { max: '262144' } },
    {
      name: 'a larger limit stays, and its hash gets the size for the computed limit',
      before: { buckets: '1024' },
      expected: { buckets: '32768' },
    },
    { name: 'the limit grows with the CPUs', cpus: 9, expected: { max: '294912', buckets: '73728' } },
    { name: 'a larger machine gets a larger hash', cpus: 16, expected: { max: '524288', buckets: '131072' } },
    {
      name: 'a very large machine gets the maximum',
      cpus: 33,
      expected: { max: '1048576', buckets: '262144' },
    },
    { name: 'a machine exactly at the maximum', cpus: 32, expected: { max: '1048576', buckets: '262144' } },
    {
      name: 'a scaled value above the maximum ignores the minimum',
      cpus: 64,
      input: { min: 2_000_000 },
      expected: { max: '1048576', buckets: '262144' },
    },
    { name: 'no minimum', input: { min: 0 }, before: { max: '32768' }, expected: { max: '65536' } },
    {
      name: 'a larger hash stays',
      before: { max: '65536', buckets: '262144' },
      expected: { max: '131072' },
    },
    {
      name: 'maxPerCore 0 writes no limit',
      input: { maxPerCore: 0 },
      before: { buckets: '1' },
      expected: { buckets: '1' },
    },
    {
      name: 'time-outs are written in seconds; 0 writes none',
      input: {
        maxPerCore: 0,
        tcpEstablishedTimeoutMs: 0,
        tcpCloseWaitTimeoutMs: 90_500,
        udpTimeoutMs: 10_000,
        udpStreamTimeoutMs: 60_000,
      },
      expected: {
        tcp_timeout_established: '432000',
        tcp_timeout_close_wait: '90',
        udp_timeout: '10',
        udp_timeout_stream: '60',
      },
    },
    {
      name: 'tcpBeLiberal is written when set',
      input: { maxPerCore: 0, tcpBeLiberal: true },
      expected: { tcp_be_liberal: '1' },
    },
    {
      name: "tcpBeLiberal false keeps the node's value",
      input: { maxPerCore: 0 },
      before: { tcp_be_liberal: '1' },
      expected: { tcp_be_liberal: '1' },
    },
  ]
  for (const { name, input, cpus, before: found = {}, expected } of cases) {
    it(name, async () => {
      const { kernel, log, start } = openNode({ ...fresh, ...found })
      await start(input, cpus)
      const wanted = prefixed({ ...fresh, ...found, ...defaults, ...expected })
      assert.deepEqual(Object.fromEntries(kernel.sysctl.values), wanted)
      assert.deepEqual(log.find('warn', ''), [])
      const { writes } = kernel.sysctl
      await start(input, cpus)
      assert.equal(kernel.sysctl.writes, writes, 'a second start writes nothing')
    })
  }

  it('a limit that this namespace may not set gets one warning, and the hash stays', async () => {
    for (const errno of [constants.errno.EACCES, constants.errno.EPERM, constants.errno.EROFS]) {
      const { kernel, log, start } = openNode()
      kernel.sysctl.fault = (path) => (path.endsWith('_max') ? errno : undefined)
      await start({}, 32)
      assert.deepEqual(
        log.find('warn', '').map(({ message }) => message),
        [
          'Kernel setting cannot be changed: net/netfilter/nf_conntrack_max should be at least 1048576; set it on the node, or use --conntrack-max-per-core=0',
        ],
      )
      assert.deepEqual(Object.fromEntries(kernel.sysctl.values), prefixed({ ...fresh, ...defaults }))
    }
  })

  it('each missing setting gets a warning with the flag that disables it', async () => {
    const { log, start } = openNode({})
    await start({ tcpBeLiberal: true, udpTimeoutMs: 1000, udpStreamTimeoutMs: 1000 })
    assert.deepEqual(
      log
        .find('warn', 'Kernel setting cannot be changed')
        .map(({ message }) => message.replace(/^.* or use /u, '')),
      [
        '--conntrack-max-per-core=0',
        '--conntrack-tcp-timeout-established=0',
        '--conntrack-tcp-timeout-close-wait=0',
        '--conntrack-tcp-be-liberal=false',
        '--conntrack-udp-timeout=0',
        '--conntrack-udp-timeout-stream=0',
      ],
    )
  })

  it('a request to the table loads the module when the settings do not exist', async () => {
    const { kernel, log, start } = openNode({})
    kernel.conntrack.deleteStale = async () => {
      for (const [path, value] of Object.entries(prefixed(fresh))) kernel.sysctl.values.set(path, value)
      return { seen: 0, deleted: 0 }
    }
    await start({}, 16)
    assert.deepEqual(log.find('warn', ''), [])
    assert.equal(kernel.sysctl.values.get('net/netfilter/nf_conntrack_max'), '524288')
  })

  it('any other failure ends the start with one error', async () => {
    const { kernel, start } = openNode()
    kernel.sysctl.fault = (path) => (path.endsWith('established') ? constants.errno.EINVAL : undefined)
    await assert.rejects(start(), {
      name: 'ConfigError',
      message:
        'could not set conntrack parameters from kube-proxy configuration: net/netfilter/nf_conntrack_tcp_timeout_established cannot be 86400 (sysctl: write net/netfilter/nf_conntrack_tcp_timeout_established: EINVAL); --conntrack-tcp-timeout-established=0 leaves it unchanged',
    })
  })

  it('writes nothing when every setting is disabled', async () => {
    const { kernel, start } = openNode({})
    await start({ maxPerCore: 0, tcpEstablishedTimeoutMs: 0, tcpCloseWaitTimeoutMs: 0 })
    assert.equal(kernel.sysctl.writes, 0)
  })

  const { EACCES, EROFS } = constants.errno
  const refusedLimits = [
    { name: 'the limit on a read-only /proc/sys', path: 'max', errno: EROFS, place: '/proc/sys' },
    { name: 'the hash on a read-only /proc/sys', path: 'buckets', errno: EROFS, place: '/proc/sys' },
    { name: 'the hash beside a read-only /sys', path: 'buckets', errno: EACCES, sysfs: true, place: '/sys' },
    { name: 'the hash in another network namespace', path: 'buckets', errno: EACCES, place: undefined },
    { name: 'a time-out on a read-only /proc/sys', path: 'udp_timeout', errno: EROFS, place: undefined },
  ]
  for (const { name, path, errno, sysfs = false, place } of refusedLimits) {
    it(`a refused write of ${name} records ${place === undefined ? 'no Event' : "kube-proxy's Event"}`, async () => {
      const { kernel, log, start, recorded, mounts } = openNode()
      mounts.isSysfsReadOnly = sysfs
      kernel.sysctl.fault = (asked) => (asked.endsWith(`nf_conntrack_${path}`) ? errno : undefined)
      await start({ udpTimeoutMs: 10_000 }, 16)
      assert.equal(log.find('warn', 'Kernel setting cannot be changed').length, 1)
      const regarding = { apiVersion: 'v1', kind: 'Node', name: 'here' }
      const note =
        `CRI error: ${place} is read-only: cannot modify conntrack limits, problems may arise later ` +
        '(If running Docker, see docker issue #24000)'
      const event = { type: 'Warning', reason: 'readOnlySysFS', action: 'StartKubeProxy', regarding, note }
      assert.deepEqual(recorded, place === undefined ? [] : [event])
    })
  }

  it('correct settings record no Event on read-only file systems', async () => {
    const values = { max: '131072', tcp_timeout_established: '86400', tcp_timeout_close_wait: '3600' }
    const { kernel, start, recorded, mounts } = openNode({ ...fresh, ...values })
    mounts.isSysfsReadOnly = true
    kernel.sysctl.fault = () => EROFS
    await start()
    assert.deepEqual(recorded, [])
  })
})

describe('countCpus', () => {
  let folder: string
  before(async () => (folder = await mkdtemp(join(tmpdir(), 'viaduct-cpus-'))))
  after(() => rm(folder, { recursive: true }))

  const cases: readonly (readonly [string, number])[] = [
    ['0\n', 1],
    ['0-1\n', 2],
    ['0-3,8-11,15\n', 9],
    ['\n', availableParallelism()],
    ['no list', availableParallelism()],
  ]
  for (const [text, count] of cases) {
    it(`reads ${JSON.stringify(text)}`, async () => {
      const file = join(folder, 'online')
      await writeFile(file, text)
      assert.equal(await countCpus(file), count)
    })
  }

  it('counts the usable CPUs if there is no such file', async () => {
    assert.equal(await countCpus(join(folder, 'none')), availableParallelism())
  })
})

const proc = 'proc /proc proc rw,nosuid,nodev,noexec,relatime 0 0'

describe('isSysfsReadOnly', () => {
  let folder: string
  before(async () => (folder = await mkdtemp(join(tmpdir(), 'viaduct-mounts-'))))
  after(() => rm(folder, { recursive: true }))

  const cases: readonly (readonly [name: string, lines: readonly string[], isReadOnly: boolean])[] = [
    ['read-only', [proc, 'sysfs /sys sysfs ro,nosuid,nodev,noexec,relatime 0 0'], true],
    ['writable', [proc, 'sysfs /sys sysfs rw,nosuid,nodev,noexec,relatime 0 0'], false],
    ['options that only contain the word', [proc, 'sysfs /sys sysfs rw,errors=remount-ro 0 0'], false],
    ['the first of two counts', ['sysfs /sys sysfs rw 0 0', 'sysfs /mnt/sys sysfs ro 0 0'], false],
    ['other read-only file systems', ['/dev/sda1 / ext4 ro 0 0', proc], false],
  ]
  for (const [name, lines, isReadOnly] of cases) {
    it(name, async () => {
      const file = join(folder, 'mounts')
      await writeFile(file, `${lines.join('\n')}\n`)
      assert.equal(await isSysfsReadOnly(file), isReadOnly)
    })
  }

  it('is false if the file cannot be read', async () => {
    assert.equal(await isSysfsReadOnly(join(folder, 'absent')), false)
  })
})
