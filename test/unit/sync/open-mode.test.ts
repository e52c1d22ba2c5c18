// Which mode runs when none is named, and what a named one that cannot run says.
import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import { Registry } from 'prom-client'
import { resolveConfig, type ConfigInput } from '../../../src/config/index.js'
import { ConfigError, ipsetErrno, KernelError } from '../../../src/errors.js'
import type { IpsetOp } from '../../../src/kernel/index.js'
import {
  openModelKernel,
  type ModelKernel,
  type ModelKernelOptions,
} from '../../../src/kernel/model/index.js'
import { StateReporter } from '../../../src/log.js'
import { openMetrics } from '../../../src/metrics/index.js'
import { NodeTracker } from '../../../src/node/index.js'
import { adviceOn, type Mode, openMode } from '../../../src/sync/index.js'
import { ManualClock } from '../../support/manual-clock.js'
import { MemoryHealthChecks, MemoryLog } from '../../support/pipeline-lab.js'

const { ENOENT, ENOMEM, ENOPROTOOPT, EPERM, EPROTONOSUPPORT } = constants.errno

async function open(
  kernel: ModelKernel,
  input: ConfigInput,
  conntrack: Promise<void> = Promise.resolve(),
): Promise<{ mode: Mode; log: MemoryLog }> {
  const log = new MemoryLog()
  const problems = new StateReporter({
    log,
    level: 'error',
    trouble: 'not programmed',
    recovery: 'programmed again',
    count: () => {},
  })
  const mode = await openMode({
    config: resolveConfig({ manifests: 'none', ...input }),
    kernel,
    node: new NodeTracker('here'),
    clock: new ManualClock(),
    log,
    metrics: openMetrics(new Registry()),
    problems,
    conntrack,
    events: { record: () => {} },
    openHealthChecks: () => new MemoryHealthChecks(),
  })
  return { mode, log }
}

type Lack = 'IP_VS' | 'ipset' | 'bitmap:port' | 'dummy' | 'mangle' | 'x_tables'

function isBitmap(op: IpsetOp): boolean {
  return op.op === 'create-set' && op.set.type === 'bitmap:port'
}

/** A kernel that lacks things. */
function kernelWithout(...lacks: readonly Lack[]): ModelKernel {
  const options: ModelKernelOptions = { hasDummyModule: !lacks.includes('dummy') }
  const kernel = openModelKernel(options)
  if (lacks.includes('IP_VS')) kernel.ipvs.batches.plan = { callFault: () => ENOENT }
  if (lacks.includes('ipset')) kernel.ipset.batches.plan = { callFault: () => EPROTONOSUPPORT }
  if (lacks.includes('bitmap:port')) {
    kernel.ipset.batches.plan = {
      fault: (op) => (isBitmap(op) ? ipsetErrno.IPSET_ERR_FIND_TYPE : undefined),
    }
  }
  if (lacks.includes('mangle')) kernel.xtables('ipv4', 'mangle').plan = { callFault: () => ENOENT }
  if (lacks.includes('x_tables'))
    for (const family of ['ipv4', 'ipv6'] as const)
      for (const table of ['nat', 'filter'] as const)
        kernel.xtables(family, table).plan = { callFault: () => ENOPROTOOPT }
  return kernel
}

it('leaves no set behind from looking for their types', async () => {
  const kernel = kernelWithout()
  await open(kernel, { mode: 'ipvs' })
  assert.deepEqual(await kernel.ipset.sets(), [])
  const types = kernel.ipset.batches.take().flatMap((op) => (op.op === 'create-set' ? [op.set.type] : []))
  assert.ok(types.includes('hash:ip,port,net') && types.includes('bitmap:port'), types.join(' '))
})

for (const mode of ['ipvs', 'iptables', undefined] as const) {
  it(`settings of connection tracking that fail are no reason for another mode than ${mode ?? 'the first'}`, async () => {
    const kernel = kernelWithout()
    const failure = new ConfigError('', 'no such setting')
    await assert.rejects(open(kernel, mode === undefined ? {} : { mode }, Promise.reject(failure)), failure)
    assert.equal(await kernel.links.find('kube-ipvs0'), undefined)
  })
}

for (const mode of ['ipvs', 'iptables'] as const) {
  describe(`families in ${mode} mode`, () => {
    const cases: readonly {
      readonly name: string
      /** Of disable_ipv6; undefined: a kernel without IPv6. */
      readonly disabled: string | undefined
      readonly hasTables?: boolean
      readonly families: readonly string[]
      readonly told?: readonly ['info' | 'warn', string]
    }[] = [
      { name: 'F-085 both where both work', disabled: '0', families: ['ipv4', 'ipv6'] },
      {
        name: 'F-085 one where IPv6 is off',
        disabled: '1',
        families: ['ipv4'],
        told: ['info', 'IPv6 Services are not programmed: IPv6 is off on this node'],
      },
      {
        name: 'F-085 one where there is no IPv6',
        disabled: undefined,
        families: ['ipv4'],
        told: ['info', 'IPv6 Services are not programmed: IPv6 is off on this node'],
      },
      {
        name: 'F-085 one where IPv6 has no tables',
        disabled: '0',
        hasTables: false,
        families: ['ipv4'],
        told: ['warn', 'IPv6 Services are not programmed'],
      },
    ]
    for (const { name, disabled, hasTables = true, families, told } of cases) {
      it(name, async () => {
        const kernel = openModelKernel()
        const path = 'net/ipv6/conf/all/disable_ipv6'
        if (disabled === undefined) kernel.sysctl.values.delete(path)
        else kernel.sysctl.values.set(path, disabled)
        for (const table of ['nat', 'filter', 'mangle'] as const)
          if (!hasTables) kernel.xtables('ipv6', table).plan = { callFault: () => ENOPROTOOPT }
        const { mode: opened, log } = await open(kernel, { mode })
        assert.deepEqual(opened.families, families)
        const lines = log.lines.filter(({ message }) => message.startsWith('IPv6 Services'))
        assert.deepEqual(
          lines.map(({ level, message }) => [level, message]),
          told === undefined ? [] : [told],
        )
      })
    }
  })
}

it('F-085 IPv6 that cannot be told to be off is on', async () => {
  const kernel = openModelKernel()
  const read = kernel.sysctl.read.bind(kernel.sysctl)
  kernel.sysctl.read = async (path) => {
    if (!path.endsWith('disable_ipv6')) return await read(path)
    throw new KernelError({
      errno: constants.errno.EACCES,
      subsystem: 'sysctl',
      operation: 'read',
      object: path,
    })
  }
  const { mode, log } = await open(kernel, { mode: 'iptables' })
  assert.deepEqual(mode.families, ['ipv4', 'ipv6'])
  assert.equal(log.find('warn', 'Cannot read whether IPv6 is off').length, 1)
})

describe('the mode that runs', () => {
  const addresses: ConfigInput = { vipBinding: 'addresses' }
  const cases: readonly {
    readonly name: string
    readonly kernel: () => ModelKernel
    readonly input?: ConfigInput
    readonly mode: Mode['name']
    /** What the fall-back is told with. */
    readonly because?: RegExp
  }[] = [
    { name: 'ipvs where nothing is named', kernel: kernelWithout, mode: 'ipvs' },
    {
      name: 'iptables where it is named',
      kernel: kernelWithout,
      input: { mode: 'iptables' },
      mode: 'iptables',
    },
    {
      name: 'iptables without IP_VS',
      kernel: () => kernelWithout('IP_VS'),
      mode: 'iptables',
      because: /instead: this kernel has no IP_VS: load it with "modprobe ip_vs"/,
    },
    {
      name: 'iptables without the scheduler',
      kernel: kernelWithout,
      input: { ipvs: { scheduler: 'nosuch' } },
      mode: 'iptables',
      because: /no scheduler "nosuch": load the module ip_vs_nosuch/,
    },
    {
      name: 'iptables without ipset',
      kernel: () => kernelWithout('ipset'),
      mode: 'iptables',
      because: /instead: this kernel has no ipset: load it with "modprobe ip_set"/,
    },
    {
      name: 'iptables without a type of set',
      kernel: () => kernelWithout('bitmap:port'),
      mode: 'iptables',
      because: /instead: this kernel lacks a type of sets: load it.*IPSET_ERR_FIND_TYPE/,
    },
    {
      name: 'iptables without the table mangle',
      kernel: () => kernelWithout('mangle'),
      mode: 'iptables',
      because: /instead: this kernel has no legacy x_tables.*mangle/,
    },
    {
      name: 'iptables without dummy devices, when addresses need one',
      kernel: () => kernelWithout('dummy'),
      input: addresses,
      mode: 'iptables',
      because: /load the module dummy/,
    },
    { name: 'ipvs without dummy devices, by routes', kernel: () => kernelWithout('dummy'), mode: 'ipvs' },
  ]
  for (const { name, kernel, input = {}, mode: expected, because } of cases) {
    it(name, async () => {
      const { mode, log } = await open(kernel(), input)
      assert.equal(mode.name, expected)
      const told = log.find('warn', 'ipvs mode cannot run here, iptables mode runs instead')
      assert.equal(told.length, because === undefined ? 0 : 1)
      if (because !== undefined) assert.match(told[0]?.message ?? '', because)
    })
  }

  const refusals: readonly {
    readonly name: string
    readonly kernel: () => ModelKernel
    readonly input?: ConfigInput
    readonly words: RegExp
  }[] = [
    {
      name: 'ipvs by name without IP_VS',
      kernel: () => kernelWithout('IP_VS'),
      input: { mode: 'ipvs' },
      words: /^this kernel has no IP_VS/,
    },
    {
      name: 'ipvs by name without ipset',
      kernel: () => kernelWithout('ipset'),
      input: { mode: 'ipvs' },
      words: /^this kernel has no ipset/,
    },
    {
      name: 'ipvs by name without the scheduler',
      kernel: kernelWithout,
      input: { mode: 'ipvs', ipvs: { scheduler: 'nosuch' } },
      words: /^ipvs-scheduler: this kernel has no scheduler "nosuch"/,
    },
    {
      name: 'none without either',
      kernel: () => kernelWithout('IP_VS', 'x_tables'),
      words:
        /^no mode can run here: ipvs: this kernel has no IP_VS.*; iptables: this kernel has no legacy x_tables/,
    },
    {
      name: 'a process that may not: nothing to fall back to',
      kernel: () => {
        const kernel = kernelWithout()
        kernel.ipvs.batches.plan = { callFault: () => EPERM }
        return kernel
      },
      words: /^CAP_NET_ADMIN is missing/,
    },
    {
      name: 'a kernel short of memory: that passes',
      kernel: () => {
        const kernel = kernelWithout()
        kernel.ipvs.batches.plan = { callFault: () => ENOMEM }
        return kernel
      },
      words: /ENOMEM/,
    },
  ]
  for (const { name, kernel, input = {}, words } of refusals) {
    it(name, async () => {
      await assert.rejects(open(kernel(), input), (error) => {
        assert.match(adviceOn(error), words)
        return true
      })
    })
  }
})
