// What is written of connection tracking at start, and what happens where it cannot be (spec section 2.4).
import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import { type ConfigInput, resolveConfig } from '../../../src/config/index.js'
import type { EventReport } from '../../../src/event.js'
import { openModelKernel } from '../../model/index.js'
import { setConntrack } from '../../../src/host/index.js'
import { MemoryLog } from '../../support/pipeline-lab.js'

/** A kernel as it comes, below net/netfilter/nf_conntrack_. */
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
    /** Beside the defaults. */
    readonly expected: Values
  }[] = [
    { name: 'the floor on a small machine', expected: { max: '131072' } },
    { name: 'by the CPUs', cpus: 8, expected: { max: '262144' } },
    { name: 'a larger machine gets a larger hash', cpus: 16, expected: { max: '524288', buckets: '131072' } },
    { name: 'the cap', cpus: 33, expected: { max: '1048576', buckets: '262144' } },
    { name: 'at the cap', cpus: 32, expected: { max: '1048576', buckets: '262144' } },
    {
      name: 'the cap goes before the floor',
      cpus: 64,
      input: { min: 2_000_000 },
      expected: { max: '1048576', buckets: '262144' },
    },
    { name: 'no floor', input: { min: 0 }, expected: { max: '65536' } },
    { name: 'a hash that is larger stays', before: { buckets: '262144' }, expected: { max: '131072' } },
    { name: 'left alone', input: { maxPerCore: 0 }, before: { buckets: '1' }, expected: { buckets: '1' } },
    {
      name: 'time-outs in seconds, 0 leaves them alone',
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
      name: 'be liberal',
      input: { maxPerCore: 0, tcpBeLiberal: true },
      expected: { tcp_be_liberal: '1' },
    },
    {
      name: 'not being liberal is left to the node',
      input: { maxPerCore: 0 },
      before: { tcp_be_liberal: '1' },
      expected: { tcp_be_liberal: '1' },
    },
  ]
  for (const { name, input, cpus, before = {}, expected } of cases) {
    it(name, async () => {
      const { kernel, log, start } = openNode({ ...fresh, ...before })
      await start(input, cpus)
      const wanted = prefixed({ ...fresh, ...before, ...defaults, ...expected })
      assert.deepEqual(Object.fromEntries(kernel.sysctl.values), wanted)
      assert.deepEqual(log.find('warn', ''), [])
      const { writes } = kernel.sysctl
      await start(input, cpus)
      assert.equal(kernel.sysctl.writes, writes, 'a second start writes nothing')
    })
  }

  it('a limit that is not ours to set is told once, and the hash is not touched', async () => {
    for (const errno of [constants.errno.EACCES, constants.errno.EPERM, constants.errno.EROFS]) {
      const { kernel, log, start } = openNode()
      kernel.sysctl.fault = (path) => (path.endsWith('_max') ? errno : undefined)
      await start({}, 32)
      assert.deepEqual(
        log.find('warn', '').map(({ message }) => message),
        [
          'Kernel setting cannot be changed: net/netfilter/nf_conntrack_max should be 1048576; set it on the node, or use --conntrack-max-per-core=0',
        ],
      )
      assert.deepEqual(Object.fromEntries(kernel.sysctl.values), prefixed({ ...fresh, ...defaults }))
    }
  })

  it('a warning for each setting that does not exist, with the flag that turns it off', async () => {
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

  it('asks the table, whose module the kernel then loads, where the settings do not exist', async () => {
    const { kernel, log, start } = openNode({})
    kernel.conntrack.deleteStale = async () => {
      for (const [path, value] of Object.entries(prefixed(fresh))) kernel.sysctl.values.set(path, value)
      return { seen: 0, deleted: 0 }
    }
    await start()
    assert.deepEqual(log.find('warn', ''), [])
    assert.equal(kernel.sysctl.values.get('net/netfilter/nf_conntrack_max'), '131072')
  })

  it('any other failure ends the start in one sentence', async () => {
    const { kernel, start } = openNode()
    kernel.sysctl.fault = (path) => (path.endsWith('established') ? constants.errno.EINVAL : undefined)
    await assert.rejects(start(), {
      name: 'ConfigError',
      message:
        'could not set conntrack parameters from kube-proxy configuration: net/netfilter/nf_conntrack_tcp_timeout_established cannot be 86400 (sysctl: write net/netfilter/nf_conntrack_tcp_timeout_established: EINVAL); --conntrack-tcp-timeout-established=0 leaves it unchanged',
    })
  })

  it('touches nothing where everything is left alone', async () => {
    const { kernel, start } = openNode({})
    await start({ maxPerCore: 0, tcpEstablishedTimeoutMs: 0, tcpCloseWaitTimeoutMs: 0 })
    assert.equal(kernel.sysctl.writes, 0)
  })

  const { EACCES, EROFS } = constants.errno
  const refusedLimits = [
    { name: 'the limit, as /proc/sys is read-only', path: 'max', errno: EROFS, place: '/proc/sys' },
    { name: 'the hash, as /proc/sys is read-only', path: 'buckets', errno: EROFS, place: '/proc/sys' },
    { name: 'the hash, where /sys is read-only', path: 'buckets', errno: EACCES, sysfs: true, place: '/sys' },
    { name: 'the hash, in another network namespace', path: 'buckets', errno: EACCES, place: undefined },
    { name: 'a time-out, as /proc/sys is read-only', path: 'udp_timeout', errno: EROFS, place: undefined },
  ]
  for (const { name, path, errno, sysfs = false, place } of refusedLimits) {
    it(`which cannot be set: ${name}: ${place === undefined ? 'no Event' : 'the Event of kube-proxy'}`, async () => {
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

  it('that are in order need no Event, wherever the file systems are read-only', async () => {
    const values = { max: '131072', tcp_timeout_established: '86400', tcp_timeout_close_wait: '3600' }
    const { kernel, start, recorded, mounts } = openNode({ ...fresh, ...values })
    mounts.isSysfsReadOnly = true
    kernel.sysctl.fault = () => EROFS
    await start()
    assert.deepEqual(recorded, [])
  })
})
