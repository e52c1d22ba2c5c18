import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import { parseCidr } from '../../../../src/address.js'
import { resolveConfig } from '../../../../src/config/index.js'
import { ConfigError, KernelError } from '../../../../src/errors.js'
import { openModelKernel, type ModelKernel } from '../../../model/index.js'
import { adviceOn } from '../../../../src/agent/index.js'
import { type AdviceModules } from '../../../../src/agent/testing.js'
import { cleanUp, describeCleanUp, IpvsSettings, prepareKernel } from '../../../../src/modes/ipvs/testing.js'
import { service, set, slice, synced } from '../../../support/objects.js'
import { ip, MemoryLog, PipelineLab, snapshot } from '../../../support/pipeline-lab.js'

async function prepare(kernel: ModelKernel, scheduler = 'rr', vipBinding: 'routes' | 'addresses' = 'routes') {
  const log = new MemoryLog()
  const { ipvs } = resolveConfig({ manifests: 'none' })
  const settings = new IpvsSettings({ config: ipvs, kernel, log })
  await prepareKernel({ kernel, scheduler, vipBinding, settings, conntrack: Promise.resolve() })
  return log
}

function dumpError(errno: number): KernelError {
  return new KernelError({ errno, subsystem: 'ipvs', operation: 'dump' })
}

describe('preparing the kernel', () => {
  it('probes the scheduler and removes the probe', async () => {
    const kernel = openModelKernel()
    await prepare(kernel, 'mh')
    assert.deepEqual(
      kernel.ipvs.batches.take().map(({ op }) => op),
      ['add-virtual-server', 'remove-virtual-server'],
    )
    assert.deepEqual(await snapshot(kernel), [])
  })

  it('writes no probe for a scheduler in use, and no setting that is correct', async () => {
    const kernel = openModelKernel()
    const lab = new PipelineLab({ kernel })
    await lab.deliver(set(service('web', '10.96.0.1')), synced)
    await lab.stop()
    await prepare(kernel)
    kernel.ipvs.batches.take()
    const writes = kernel.sysctl.writes
    await prepare(kernel)
    assert.deepEqual([kernel.ipvs.batches.take(), kernel.sysctl.writes], [[], writes])
  })

  it('removes the probe of an agent that died', async () => {
    const kernel = openModelKernel()
    const key = { family: 'ipv4', protocol: 'tcp', address: ip('198.51.100.0'), port: 20000 } as const
    const settings = { scheduler: 'lc', flags: 0, timeoutSeconds: 0, netmaskLength: 32 }
    await kernel.ipvs.apply([{ op: 'add-virtual-server', server: { key, settings } }])
    await prepare(kernel)
    assert.deepEqual(await snapshot(kernel), [])
  })

  it('refuses an unknown scheduler with one error', async () => {
    await assert.rejects(prepare(openModelKernel(), 'nope'), (error) => {
      assert.ok(error instanceof ConfigError)
      assert.match(
        adviceOn(error),
        /ipvs-scheduler: this kernel has no scheduler "nope": load the module ip_vs_nope/,
      )
      return true
    })
  })

  it('refuses addresses without a dummy device, with advice', async () => {
    const kernel = openModelKernel({ hasDummyModule: false })
    await assert.rejects(
      prepare(kernel, 'rr', 'addresses'),
      /load the module dummy, or use --vip-binding=routes/,
    )
    await prepare(kernel, 'rr', 'routes')
  })

  it("writes kube-proxy's settings for the kernel's version", async () => {
    for (const [release, reuse] of [
      ['4.19.0-27-amd64', '0'],
      ['5.8.18', '0'],
      ['5.9.0', '1'],
      ['6.1.0-49-amd64', '1'],
    ] as const) {
      const before = {
        'kernel/osrelease': release,
        'net/ipv4/vs/conn_reuse_mode': '1',
        'net/ipv4/vs/conntrack': '0',
        'net/ipv4/ip_forward': '0',
      }
      const kernel = openModelKernel({
        sysctls: {
          ...before,
          'net/ipv4/vs/expire_nodest_conn': '0',
          'net/ipv4/vs/expire_quiescent_template': '0',
        },
      })
      await prepare(kernel)
      const { values } = kernel.sysctl
      assert.equal(values.get('net/ipv4/vs/conn_reuse_mode'), reuse, release)
      for (const name of [
        'vs/conntrack',
        'vs/expire_nodest_conn',
        'vs/expire_quiescent_template',
        'ip_forward',
      ]) {
        assert.equal(values.get(`net/ipv4/${name}`), '1')
      }
    }
  })

  it('reports a setting that cannot be written, and continues', async () => {
    const kernel = openModelKernel()
    kernel.sysctl.fault = (path) => (path.endsWith('conntrack') ? constants.errno.EROFS : undefined)
    const log = await prepare(kernel)
    assert.equal(log.find('error', 'net/ipv4/vs/conntrack should be 1').length, 1)
    assert.equal(kernel.sysctl.values.get('net/ipv4/ip_forward'), '1')
  })

  it("continues when the kernel's release cannot be read", async () => {
    const kernel = openModelKernel()
    const read = kernel.sysctl.read.bind(kernel.sysctl)
    kernel.sysctl.read = async (path) => {
      if (path !== 'kernel/osrelease') return await read(path)
      throw new KernelError({ errno: constants.errno.EACCES, subsystem: 'sysctl', operation: 'read' })
    }
    const log = await prepare(kernel)
    assert.equal(log.find('error', 'conn_reuse_mode should be 0 before Linux 5.9').length, 1)
  })

  it('has advice for the errors that end the agent', () => {
    assert.match(adviceOn(dumpError(constants.errno.EPERM)), /CAP_NET_ADMIN is missing: run as root/)
    const modules: AdviceModules = { remedy: () => 'load', isLocked: false }
    assert.match(
      adviceOn(dumpError(constants.errno.ENOENT), modules),
      /^this kernel has not loaded IP_VS: load it with "modprobe ip_vs", and name ip_vs in a file of \/etc\/modules-load\.d /,
    )
  })
})

describe('--cleanup', () => {
  for (const vipBinding of ['routes', 'addresses'] as const) {
    it(`removes only own objects, bound by ${vipBinding}, and is idempotent`, async () => {
      const kernel = openModelKernel()
      const foreign = { family: 'ipv4', protocol: 'tcp', address: ip('192.0.2.1'), port: 80 } as const
      const settings = { scheduler: 'rr', flags: 0, timeoutSeconds: 0, netmaskLength: 32 }
      await kernel.ipvs.apply([{ op: 'add-virtual-server', server: { key: foreign, settings } }])
      await kernel.routes.apply([
        { op: 'add-route', route: { address: ip('192.0.2.1'), interfaceIndex: 1, protocol: 3 } },
      ])
      const before = await snapshot(kernel)
      const lab = new PipelineLab({ kernel, vipBinding })
      const dual = { clusterIPs: ['10.96.0.1', 'fd00::1'], ipFamilies: ['IPv4', 'IPv6'] as const }
      await lab.deliver(set(service('web', '10.96.0.1', dual)), set(slice('s', 'web', ['10.1.0.1'])), synced)
      await lab.stop()
      const report = await cleanUp(kernel, [])
      assert.deepEqual(await snapshot(kernel), before)
      assert.equal(await kernel.links.find('kube-ipvs0'), undefined)
      const bound =
        vipBinding === 'routes'
          ? '2 VIP routes, the device kube-ipvs0 with 0 addresses'
          : '0 VIP routes, the device kube-ipvs0 with 2 addresses'
      assert.equal(describeCleanUp(report), `removed 2 virtual servers, ${bound}, 44 sets`)
      assert.equal(describeCleanUp(await cleanUp(kernel, [])), 'removed 0 virtual servers, 0 VIP routes')
    })
  }

  for (const vipBinding of ['routes', 'addresses'] as const) {
    it(`keeps the bindings (${vipBinding}) of virtual servers that the kernel does not remove, and can be repeated`, async () => {
      const lab = new PipelineLab({ vipBinding })
      await lab.deliver(set(service('web', '10.96.0.1')), synced)
      await lab.stop()
      const { kernel } = lab
      kernel.ipvs.batches.plan = { fault: () => constants.errno.ENOMEM }
      assert.match(describeCleanUp(await cleanUp(kernel, [])), /^removed 0 .*; failed: .*ENOMEM$/u)
      kernel.ipvs.batches.plan = {}
      await cleanUp(kernel, [])
      assert.deepEqual(await snapshot(kernel), [])
    })
  }

  it('keeps virtual servers in excludeCIDRs, which kube-proxy would flush', async () => {
    const lab = new PipelineLab()
    await lab.deliver(set(service('web', '10.96.0.1')), set(service('kept', '10.97.0.1')), synced)
    await lab.stop()
    const excluded = parseCidr('10.97.0.0/16')
    assert.ok(excluded)
    const report = await cleanUp(lab.kernel, [excluded])
    assert.match(describeCleanUp(report), /^removed 1 virtual servers, 2 VIP routes/u)
    assert.deepEqual(await snapshot(lab.kernel), ['tcp 10.97.0.1:80 rr 0 0'])
  })

  it('keeps a device of another kind with the name kube-ipvs0, like the agent', async () => {
    const kernel = openModelKernel()
    const { index: interfaceIndex } = await kernel.links.addDummy('kube-ipvs0')
    const list = kernel.links.list.bind(kernel.links)
    kernel.links.list = async () => (await list()).map((link) => ({ ...link, kind: 'veth' }))
    const address = ip('192.0.2.7')
    const key = { family: 'ipv4', protocol: 'tcp', address, port: 53 } as const
    const settings = { scheduler: 'rr', flags: 0, timeoutSeconds: 0, netmaskLength: 32 }
    await kernel.routes.apply([{ op: 'add-address', address: { address, prefixLength: 32, interfaceIndex } }])
    await kernel.ipvs.apply([{ op: 'add-virtual-server', server: { key, settings } }])
    const before = await snapshot(kernel)
    const lab = new PipelineLab({ kernel })
    await lab.deliver(synced)
    assert.deepEqual(await snapshot(kernel), before)
    assert.equal(lab.log.find('warn', 'kube-ipvs0 is no dummy device').length, 1)
    await lab.stop()
    await assert.rejects(prepare(kernel, 'rr', 'addresses'), /rename or remove it/)
    const text = describeCleanUp(await cleanUp(kernel, []))
    assert.equal(text, 'removed 0 virtual servers, 0 VIP routes, 44 sets')
    assert.deepEqual(await snapshot(kernel), before)
  })

  it('works without IP_VS and reports its absence', async () => {
    const kernel = openModelKernel()
    const lab = new PipelineLab({ kernel })
    await lab.deliver(set(service('web', '10.96.0.1')), synced)
    await lab.stop()
    kernel.ipvs.batches.plan = { callFault: () => constants.errno.ENOENT }
    const text = describeCleanUp(await cleanUp(kernel, []))
    assert.match(
      text,
      /^removed 0 virtual servers, 1 VIP routes, .* \(this kernel has no IP_VS: no virtual servers to remove\)$/u,
    )
  })
})
