// The first check of the tables, on kernels that have them, load them on request, or cannot load them.
import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import { Registry } from 'prom-client'
import type { IpFamily } from '../../../../src/address.js'
import { resolveConfig, type ConfigInput } from '../../../../src/config/index.js'
import { KernelError } from '../../../../src/errors.js'
import { openModelKernel } from '../../../model/index.js'
import { StateReporter } from '../../../../src/log.js'
import { openMetrics } from '../../../../src/metrics/index.js'
import { NodeTracker } from '../../../../src/node/index.js'
import { adviceOn } from '../../../../src/agent/index.js'
import { formerChains } from '../../../../src/agent/testing.js'
import { openIptablesMode } from '../../../../src/modes/iptables/testing.js'
import { ManualClock } from '../../../support/manual-clock.js'
import { MemoryHealthChecks, MemoryLog } from '../../../support/pipeline-lab.js'

const families = ['ipv4', 'ipv6'] as const

/** A kernel without the modules of the legacy tables. It can load those of the families in `loadable`. */
function openNode(loadable: readonly IpFamily[], input: ConfigInput = {}) {
  const kernel = openModelKernel()
  const loaded = new Set<IpFamily>()
  const asked: IpFamily[] = []
  for (const family of families) {
    const callFault = (): number | undefined => (loaded.has(family) ? undefined : constants.errno.ENOPROTOOPT)
    for (const table of ['nat', 'filter'] as const) kernel.xtables(family, table).plan = { callFault }
  }
  kernel.nftChains.onLoadXtables = (family) => {
    asked.push(family)
    if (loadable.includes(family)) loaded.add(family)
  }
  const log = new MemoryLog()
  const reporter = new StateReporter({ log, level: 'error', problemLine: '', recovery: '' })
  const open = () =>
    openIptablesMode({
      formerChains,
      flavour: 'legacy',
      config: resolveConfig({ manifests: 'none', mode: 'iptables', ...input }),
      kernel,
      node: new NodeTracker('here'),
      clock: new ManualClock(),
      log,
      metrics: openMetrics(new Registry()),
      conntrack: Promise.resolve(),
      problems: reporter,
      events: { record: () => {} },
      openHealthChecks: () => new MemoryHealthChecks(),
    })
  return { kernel, asked, log, open }
}

describe('a node without loaded iptables modules', () => {
  it('requests each module once', async () => {
    const { asked, open } = openNode(families)
    assert.deepEqual((await open()).families, families)
    assert.deepEqual(asked, families)
    await open()
    assert.deepEqual(asked, families, 'no request for a loaded module')
  })

  it('runs without IPv6 if its module cannot be loaded', async () => {
    const { asked, log, open } = openNode(['ipv4'])
    assert.deepEqual((await open()).families, ['ipv4'])
    assert.deepEqual(asked, families)
    assert.equal(log.find('warn', 'IPv6 Services are not programmed').length, 1)
  })

  it('is refused with one error if no module can be loaded, also when the request fails', async () => {
    for (const errno of [undefined, constants.errno.EPERM]) {
      const { kernel, open } = openNode([])
      kernel.nftChains.onLoadXtables = (family) => {
        if (errno === undefined) return
        throw new KernelError({ errno, subsystem: 'nftables', operation: 'load x_tables', family })
      }
      await assert.rejects(open(), (error) => {
        assert.match(
          adviceOn(error, { remedy: () => 'none', isLocked: false }),
          /^this kernel has no legacy x_tables: run a kernel that has it/,
        )
        return true
      })
    }
  })
})

describe('F-103 route_localnet', () => {
  const localhostNodePorts = false
  const cases: readonly { readonly name: string; readonly input: ConfigInput; readonly expected: string }[] =
    [
      { name: 'is written by --init-only', input: { initOnly: true }, expected: '2' },
      {
        name: 'is not written with localhostNodePorts false',
        input: { initOnly: true, iptables: { localhostNodePorts } },
        expected: '0',
      },
      {
        name: "is not written with node ports on the node's own IPs",
        input: { initOnly: true, nodePortAddresses: ['primary'] },
        expected: '0',
      },
      {
        name: "is written with node ports on loopback addresses beside the node's own IPs",
        input: { initOnly: true, nodePortAddresses: ['primary', 'localhost'] },
        expected: '2',
      },
      { name: 'is not written before the first node port', input: {}, expected: '0' },
    ]
  for (const { name, input, expected } of cases) {
    it(name, async () => {
      const { kernel, open } = openNode(families, input)
      await open()
      assert.equal(await kernel.sysctl.read('net/ipv4/conf/all/route_localnet'), expected)
      const guards = (await kernel.xtables('ipv4', 'filter').chains()).map(({ chain }) => chain)
      assert.deepEqual(guards, expected === '0' ? [] : ['KUBE-FIREWALL'])
    })
  }

  it('is not written by --init-only while the guard cannot be written (CVE-2020-8558)', async () => {
    const { kernel, open } = openNode(families, { initOnly: true })
    kernel.xtables('ipv4', 'filter').plan = { callFault: () => constants.errno.EAGAIN }
    await assert.rejects(open(), { code: 'EAGAIN' })
    assert.equal(await kernel.sysctl.read('net/ipv4/conf/all/route_localnet'), '0')
  })

  it('keeps the value of an administrator', async () => {
    const { kernel, open } = openNode(families, { initOnly: true })
    await kernel.sysctl.write('net/ipv4/conf/all/route_localnet', '1')
    await open()
    assert.equal(await kernel.sysctl.read('net/ipv4/conf/all/route_localnet'), '1')
  })
})
