// The choice of the mode, the report of a fallback, and the errors if no mode is available.
import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import { Registry } from 'prom-client'
import { resolveConfig, type ConfigInput } from '../../../src/config/index.js'
import { ConfigError, ipsetErrno, KernelError } from '../../../src/errors.js'
import type { EventReport } from '../../../src/event.js'
import type { IpsetOp, NfOp } from '../../../src/kernel/index.js'
import { openModelKernel, type ModelKernel, type ModelKernelOptions } from '../../model/index.js'
import { openMetrics } from '../../../src/metrics/index.js'
import { NodeTracker } from '../../../src/node/index.js'
import { adviceOn } from '../../../src/agent/index.js'
import { type AdviceModules, openMode } from '../../../src/agent/testing.js'
import { type Mode, openProblems } from '../../../src/engine/index.js'
import { ManualClock } from '../../support/manual-clock.js'
import { MemoryHealthChecks, MemoryLog } from '../../support/pipeline-lab.js'

const { ENOENT, ENOMEM, ENOPROTOOPT, EOPNOTSUPP, EPERM, EPROTONOSUPPORT } = constants.errno

/** A pod without /lib/modules. */
const withoutLists = { remedy: () => 'unknown', isLocked: false } satisfies AdviceModules

async function open(
  kernel: ModelKernel,
  input: ConfigInput,
  conntrack: Promise<void> = Promise.resolve(),
): Promise<{ mode: Mode; log: MemoryLog; events: readonly EventReport[] }> {
  const log = new MemoryLog()
  const events: EventReport[] = []
  const problems = openProblems({ log })
  const mode = await openMode({
    config: resolveConfig({ manifests: 'none', iptablesFlavour: 'legacy', ...input }),
    modules: withoutLists,
    kernel,
    node: new NodeTracker('here'),
    clock: new ManualClock(),
    log,
    metrics: openMetrics(new Registry()),
    problems,
    conntrack,
    events: { record: (event) => void events.push(event) },
    openHealthChecks: () => new MemoryHealthChecks(),
  })
  return { mode, log, events }
}

describe('the flavour of iptables', () => {
  const runs = [
    { mode: 'ipvs', flavour: 'legacy' },
    { mode: 'ipvs', flavour: 'nft' },
    { mode: 'iptables', flavour: 'legacy' },
  ] as const
  for (const { mode, flavour } of runs) {
    it(`is ${flavour} in ${mode} mode by the setting, and is logged with its reason`, async () => {
      const { mode: opened, log } = await open(openModelKernel(), { mode, iptablesFlavour: flavour })
      const [line, ...others] = log.find('info', 'Flavour of iptables chosen')
      assert.deepEqual(line?.fields, { flavour, reason: 'the setting iptablesFlavour' })
      assert.deepEqual([opened.flavour, others], [flavour, []])
    })
  }

  it('is nothing that nftables mode has', async () => {
    const { mode, log } = await open(openModelKernel(), { mode: 'nftables' })
    assert.deepEqual([mode.flavour, log.find('info', 'Flavour of iptables chosen')], [undefined, []])
  })

  it('is nothing that userspace mode has', async () => {
    const { mode, log } = await open(openModelKernel(), { mode: 'userspace' })
    assert.deepEqual([mode.flavour, log.find('info', 'Flavour of iptables chosen')], [undefined, []])
  })

  it('is legacy, with a warning, when the kernel cannot be asked', async () => {
    const kernel = openModelKernel()
    await kernel.nftChains.close()
    const { mode, log } = await open(kernel, { mode: 'iptables', iptablesFlavour: 'auto' })
    assert.equal(log.find('warn', 'Flavour of iptables cannot be found').length, 1)
    assert.equal(mode.flavour, 'legacy')
  })
})

it('userspace mode runs without the settings of connection tracking, with a warning', async () => {
  const broken = Promise.reject(new ConfigError('', 'could not set conntrack parameters'))
  const { mode, log } = await open(openModelKernel(), { mode: 'userspace' }, broken)
  assert.equal(mode.name, 'userspace')
  assert.equal(log.find('warn', 'Connection tracking is not set up').length, 1)
})

it('ipvs mode removes the test sets of a killed start by their names (issue 18, C4)', async () => {
  const kernel = openModelKernel()
  const left = { family: 'ipv4', maxElements: 64, hashSize: 64, hasMarks: false, hasComments: false } as const
  const names = ['viaduct-probe-1', 'viaduct-probe-99']
  await kernel.ipset.apply(
    names.map((name) => ({ op: 'create-set', set: { ...left, name, type: 'hash:ip' } }) as const),
  )
  await open(kernel, { mode: 'ipvs' })
  assert.deepEqual(await kernel.ipset.sets(), [])
})

type Lack = 'IP_VS' | 'ipset' | 'bitmap:port' | 'dummy' | 'mangle' | 'x_tables' | NftLack
type NftLack =
  'nf_tables' | 'nft_compat' | 'xt_set' | 'numgen' | 'reject' | 'nat chains' | 'dynamic sets' | 'elements'

/** Extensions of x_tables: all of them, or those of xt_set. */
const extensionsOf: Partial<Record<Lack, RegExp>> = { nft_compat: /^/u, xt_set: /^set$/iu }

function isBitmap(op: IpsetOp): boolean {
  return op.op === 'create-set' && op.set.type === 'bitmap:port'
}

function needs(op: NfOp, lack: Lack): boolean {
  const names = extensionsOf[lack]
  if (names !== undefined)
    return (
      op.op === 'add-rule' &&
      op.rule.expressions.some(
        (one) => (one.kind === 'match' || one.kind === 'target') && names.test(one.name),
      )
    )
  if (lack === 'numgen' || lack === 'reject')
    return op.op === 'add-rule' && op.rule.expressions.some(({ kind }) => kind === lack)
  if (lack === 'nat chains') return op.op === 'add-chain' && op.chain.hook?.type === 'nat'
  if (lack === 'dynamic sets') return op.op === 'add-set' && op.set.flags?.includes('dynamic') === true
  return lack === 'elements' && op.op === 'add-elements'
}

/** A kernel without these features. */
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
  kernel.nftables.plan = {
    transactionFault: () => (lacks.includes('nf_tables') ? EPROTONOSUPPORT : undefined),
    fault: (op) => (lacks.some((lack) => needs(op, lack)) ? EOPNOTSUPP : undefined),
  }
  return kernel
}

it('leaves no set behind after the test for set types', async () => {
  const kernel = kernelWithout()
  await open(kernel, { mode: 'ipvs' })
  assert.deepEqual(await kernel.ipset.sets(), [])
  const types = kernel.ipset.batches.take().flatMap((op) => (op.op === 'create-set' ? [op.set.type] : []))
  assert.ok(types.includes('hash:ip,port,net') && types.includes('bitmap:port'), types.join(' '))
})

for (const mode of ['ipvs', 'iptables', 'nftables'] as const) {
  it(`failing settings of connection tracking do not change the mode from ${mode}`, async () => {
    const kernel = kernelWithout()
    const failure = new ConfigError('', 'no such setting')
    await assert.rejects(open(kernel, { mode }, Promise.reject(failure)), failure)
    assert.equal(await kernel.links.find('kube-ipvs0'), undefined)
  })
}

const runsInFamilies: readonly ConfigInput[] = [
  { mode: 'ipvs' },
  { mode: 'ipvs', iptablesFlavour: 'nft' },
  { mode: 'iptables' },
  { mode: 'nftables' },
]
for (const input of runsInFamilies) {
  describe(`families with ${JSON.stringify(input)}`, () => {
    const cases: readonly {
      readonly name: string
      /** Value of disable_ipv6; undefined: a kernel without IPv6. */
      readonly disabled: string | undefined
      readonly hasTables?: boolean
      readonly families: readonly string[]
      readonly logged?: readonly ['info' | 'warn', string]
    }[] = [
      { name: 'F-085 both where both work', disabled: '0', families: ['ipv4', 'ipv6'] },
      {
        name: 'F-085 only IPv4 where IPv6 is off',
        disabled: '1',
        families: ['ipv4'],
        logged: ['info', 'IPv6 Services are not programmed: IPv6 is off on this node'],
      },
      {
        name: 'F-085 only IPv4 on a kernel without IPv6',
        disabled: undefined,
        families: ['ipv4'],
        logged: ['info', 'IPv6 Services are not programmed: IPv6 is off on this node'],
      },
      {
        name: 'F-085 only IPv4 where IPv6 has no tables',
        disabled: '0',
        hasTables: false,
        families: ['ipv4'],
        logged: ['warn', 'IPv6 Services are not programmed'],
      },
    ]
    for (const { name, disabled, hasTables = true, families, logged } of cases) {
      it(name, async () => {
        const kernel = openModelKernel()
        const path = 'net/ipv6/conf/all/disable_ipv6'
        if (disabled === undefined) kernel.sysctl.values.delete(path)
        else kernel.sysctl.values.set(path, disabled)
        for (const table of ['nat', 'filter', 'mangle'] as const)
          if (!hasTables) kernel.xtables('ipv6', table).plan = { callFault: () => ENOPROTOOPT }
        if (!hasTables) {
          kernel.nftables.plan = {
            fault: (op) => (op.op === 'create-table' && op.table.family === 'ipv6' ? EOPNOTSUPP : undefined),
          }
        }
        const { mode: opened, log } = await open(kernel, input)
        assert.deepEqual(opened.families, families)
        const lines = log.lines.filter(({ message }) => message.startsWith('IPv6 Services'))
        assert.deepEqual(
          lines.map(({ level, message }) => [level, message]),
          logged === undefined ? [] : [logged],
        )
      })
    }
  })
}

it('F-085 IPv6 is on when its setting cannot be read', async () => {
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
  assert.equal(log.find('warn', 'IPv6 setting cannot be read').length, 1)
})

const withoutIpvs =
  /this kernel has no IP_VS, or has not loaded it: load it with "modprobe ip_vs", or run a kernel that has it/

describe('the mode that runs', () => {
  const cases: readonly {
    readonly name: string
    readonly kernel: () => ModelKernel
    readonly input: ConfigInput
    readonly mode: Mode['name']
    /** The missing requirement in the warning; absent: the configured mode runs. */
    readonly because?: RegExp
  }[] = [
    { name: 'iptables for a blank mode', kernel: kernelWithout, input: {}, mode: 'iptables' },
    { name: 'iptables as configured', kernel: kernelWithout, input: { mode: 'iptables' }, mode: 'iptables' },
    { name: 'ipvs as configured', kernel: kernelWithout, input: { mode: 'ipvs' }, mode: 'ipvs' },
    {
      name: 'ipvs without dummy devices, by routes',
      kernel: () => kernelWithout('dummy'),
      input: { mode: 'ipvs' },
      mode: 'ipvs',
    },
    {
      name: 'iptables for ipvs without IP_VS',
      kernel: () => kernelWithout('IP_VS'),
      input: { mode: 'ipvs' },
      mode: 'iptables',
      because: withoutIpvs,
    },
    {
      name: 'iptables for ipvs without the scheduler',
      kernel: kernelWithout,
      input: { mode: 'ipvs', ipvs: { scheduler: 'nosuch' } },
      mode: 'iptables',
      because: /no scheduler "nosuch": load the module ip_vs_nosuch/,
    },
    {
      name: 'iptables for ipvs without ipset',
      kernel: () => kernelWithout('ipset'),
      input: { mode: 'ipvs' },
      mode: 'iptables',
      because:
        /this kernel has no ipset, or has not loaded it: load it with "modprobe -a ip_set [^"]*", or use --proxy-mode=iptables/,
    },
    {
      name: 'iptables for ipvs without a type of set',
      kernel: () => kernelWithout('bitmap:port'),
      input: { mode: 'ipvs' },
      mode: 'iptables',
      because: /this kernel has no sets of a type that ipvs mode needs.*IPSET_ERR_FIND_TYPE/,
    },
    {
      name: 'ipvs in nf_tables for ipvs without the legacy table mangle',
      kernel: () => kernelWithout('mangle'),
      input: { mode: 'ipvs' },
      mode: 'ipvs',
      because:
        /^ipvs mode in the flavour nft runs instead: ipvs mode cannot run here: this kernel has no legacy x_tables.*mangle/,
    },
    {
      name: 'iptables for ipvs without the table mangle and nft_compat',
      kernel: () => kernelWithout('mangle', 'nft_compat'),
      input: { mode: 'ipvs' },
      mode: 'iptables',
      because: /ipvs mode in the flavour nft cannot run here: this kernel has no nft_compat/,
    },
    {
      name: 'ipvs in the legacy tables for ipvs in nf_tables without nft_compat',
      kernel: () => kernelWithout('nft_compat'),
      input: { mode: 'ipvs', iptablesFlavour: 'nft' },
      mode: 'ipvs',
      because:
        /^ipvs mode runs instead: ipvs mode in the flavour nft cannot run here: this kernel has no nft_compat, or has not loaded it: load it/,
    },
    {
      name: 'ipvs in the legacy tables for ipvs in nf_tables without xt_set',
      kernel: () => kernelWithout('xt_set'),
      input: { mode: 'ipvs', iptablesFlavour: 'nft' },
      mode: 'ipvs',
      because:
        /has no nf_tables with what ipvs mode needs \(match set\), or has not .* "modprobe xt_set", or use --proxy-mode=iptables/,
    },
    {
      name: 'iptables for ipvs by addresses without dummy devices',
      kernel: () => kernelWithout('dummy'),
      input: { mode: 'ipvs', vipBinding: 'addresses' },
      mode: 'iptables',
      because: /load the module dummy/,
    },
    { name: 'nftables as configured', kernel: kernelWithout, input: { mode: 'nftables' }, mode: 'nftables' },
    {
      name: 'nftables as configured, without x_tables and IP_VS',
      kernel: () => kernelWithout('x_tables', 'IP_VS'),
      input: { mode: 'nftables' },
      mode: 'nftables',
    },
    {
      name: 'iptables for nftables without nf_tables',
      kernel: () => kernelWithout('nf_tables'),
      input: { mode: 'nftables' },
      mode: 'iptables',
      because:
        /this kernel has no nf_tables, or has not loaded it: load it with "modprobe nf_tables".*EPROTONOSUPPORT/,
    },
    {
      name: 'iptables for nftables without an expression',
      kernel: () => kernelWithout('numgen'),
      input: { mode: 'nftables' },
      mode: 'iptables',
      because: /nf_tables with what nftables mode needs \(expression numgen\).* "modprobe nft_numgen"/,
    },
    {
      name: 'iptables for nftables without an expression that each family has a module for',
      kernel: () => kernelWithout('reject'),
      input: { mode: 'nftables' },
      mode: 'iptables',
      because: /nf_tables with what nftables mode needs \(expression reject\).* "modprobe nft_reject_ipv4"/,
    },
    {
      name: 'iptables for nftables without the chain type nat',
      kernel: () => kernelWithout('nat chains'),
      input: { mode: 'nftables' },
      mode: 'iptables',
      because: /nf_tables with what nftables mode needs \(chain type nat\).* "modprobe nft_chain_nat"/,
    },
    {
      name: 'iptables for nftables without a kind of set',
      kernel: () => kernelWithout('dynamic sets'),
      input: { mode: 'nftables' },
      mode: 'iptables',
      because:
        /has no nf_tables with what nftables mode needs \(set clients-A+ \(timeout, dynamic\)\): run a kernel/,
    },
    {
      name: 'iptables for nftables without elements of its sets',
      kernel: () => kernelWithout('elements'),
      input: { mode: 'nftables' },
      mode: 'iptables',
      because: /has no nf_tables with what nftables mode needs \(elements of set cluster-ips\): run a kernel/,
    },
    {
      name: 'iptables as configured, without x_tables',
      kernel: () => kernelWithout('x_tables'),
      input: { mode: 'iptables', iptablesFlavour: 'auto' },
      mode: 'iptables',
    },
    {
      name: 'iptables in nf_tables for iptables in the legacy tables without x_tables',
      kernel: () => kernelWithout('x_tables'),
      input: { mode: 'iptables' },
      mode: 'iptables',
      because:
        /^iptables mode in the flavour nft runs instead: iptables mode cannot run here: this kernel has no legacy x_tables/,
    },
    {
      name: 'nftables for iptables without x_tables and nft_compat',
      kernel: () => kernelWithout('x_tables', 'nft_compat'),
      input: { mode: 'iptables' },
      mode: 'nftables',
      because:
        /^nftables mode runs instead: iptables mode cannot run here: this kernel has no legacy x_tables/,
    },
    {
      name: 'nftables for ipvs without IP_VS, x_tables and nft_compat',
      kernel: () => kernelWithout('IP_VS', 'x_tables', 'nft_compat'),
      input: { mode: 'ipvs' },
      mode: 'nftables',
      because:
        /this kernel has no IP_VS.*; iptables mode cannot run here: this kernel has no legacy x_tables/,
    },
    ...(['ipvs', 'iptables', 'nftables'] as const).map((configured) => ({
      name: `userspace for ${configured} without IP_VS, x_tables and nf_tables`,
      kernel: () => kernelWithout('IP_VS', 'x_tables', 'nf_tables'),
      input: { mode: configured },
      mode: 'userspace' as const,
      because: /nftables mode cannot run here: this kernel has no nf_tables/,
    })),
    {
      name: 'userspace as configured, without IP_VS, x_tables and nf_tables',
      kernel: () => kernelWithout('IP_VS', 'x_tables', 'nf_tables'),
      input: { mode: 'userspace' },
      mode: 'userspace',
    },
    {
      name: 'userspace as configured',
      kernel: kernelWithout,
      input: { mode: 'userspace' },
      mode: 'userspace',
    },
  ]
  for (const { name, kernel, input, mode: expected, because } of cases) {
    it(name, async () => {
      const { mode, log, events } = await open(kernel(), input)
      assert.equal(mode.name, expected)
      const warnings = log.lines.filter(({ level }) => level === 'warn').map(({ message }) => message)
      if (because === undefined) return assert.deepEqual([warnings, events], [[], []])
      const [event] = events
      assert.ok(event)
      assert.deepEqual([warnings, events.length], [[`Proxy mode falls back: ${event.note}`], 1])
      assert.match(event.note, because)
      const words = /^(\w+) mode.* runs instead: (\w+) mode(?: in the flavour nft)? cannot run here: /u.exec(
        event.note,
      )
      assert.deepEqual(words?.slice(1), [expected, input.mode])
      const { type, reason, action, regarding } = event
      assert.deepEqual(
        { type, reason, action, regarding },
        {
          type: 'Warning',
          reason: 'ProxyModeFallback',
          action: 'StartKubeProxy',
          regarding: { apiVersion: 'v1', kind: 'Node', name: 'here' },
        },
      )
    })
  }

  const alone = { mode: 'ipvs', modeFallback: false } as const
  const refusals: readonly {
    readonly name: string
    readonly kernel: () => ModelKernel
    readonly input: ConfigInput
    readonly words: RegExp
  }[] = [
    {
      name: 'ipvs alone without IP_VS',
      kernel: () => kernelWithout('IP_VS'),
      input: alone,
      words: /^this kernel has no IP_VS/,
    },
    {
      name: 'ipvs alone without ipset',
      kernel: () => kernelWithout('ipset'),
      input: alone,
      words: /^this kernel has no ipset/,
    },
    {
      name: 'ipvs alone without the scheduler',
      kernel: kernelWithout,
      input: { ...alone, ipvs: { scheduler: 'nosuch' } },
      words: /^ipvs-scheduler: this kernel has no scheduler "nosuch"/,
    },
    {
      name: 'ipvs and its fallbacks, without any and without permission for routes',
      kernel: () => {
        const kernel = kernelWithout('IP_VS', 'x_tables', 'nf_tables')
        kernel.routes.batches.plan = { fault: () => EPERM }
        return kernel
      },
      input: { mode: 'ipvs' },
      words: /^CAP_NET_ADMIN is missing/,
    },
    {
      name: 'iptables alone without x_tables',
      kernel: () => kernelWithout('x_tables'),
      input: { modeFallback: false, iptablesFlavour: 'legacy' },
      words: /^this kernel has no legacy x_tables/,
    },
    {
      name: 'nftables alone without an expression',
      kernel: () => kernelWithout('numgen'),
      input: { mode: 'nftables', modeFallback: false },
      words: /^this kernel has no nf_tables with what nftables mode needs \(expression numgen\)/,
    },
    {
      // Before, the sentence named nftables mode, which did not run.
      name: 'iptables of the flavour nft alone without an expression',
      kernel: () => kernelWithout('numgen'),
      input: { mode: 'iptables', iptablesFlavour: 'nft', modeFallback: false },
      words:
        /^this kernel has no nf_tables with what iptables mode in the flavour nft needs \(expression numgen\)/,
    },
    {
      name: 'a process without permission for nf_tables, without a fallback',
      kernel: () => {
        const kernel = kernelWithout()
        kernel.nftables.plan = { transactionFault: () => EPERM }
        return kernel
      },
      input: { mode: 'nftables' },
      words: /^CAP_NET_ADMIN is missing/,
    },
    {
      name: 'a process without permission, without a fallback',
      kernel: () => {
        const kernel = kernelWithout()
        kernel.ipvs.batches.plan = { callFault: () => EPERM }
        return kernel
      },
      input: { mode: 'ipvs' },
      words: /^CAP_NET_ADMIN is missing/,
    },
    {
      name: 'a kernel without memory, without a fallback',
      kernel: () => {
        const kernel = kernelWithout()
        kernel.ipvs.batches.plan = { callFault: () => ENOMEM }
        return kernel
      },
      input: { mode: 'ipvs' },
      words: /ENOMEM/,
    },
  ]
  for (const { name, kernel, input, words } of refusals) {
    it(name, async () => {
      await assert.rejects(open(kernel(), input), (error) => {
        assert.match(adviceOn(error, withoutLists), words)
        return true
      })
    })
  }
})
