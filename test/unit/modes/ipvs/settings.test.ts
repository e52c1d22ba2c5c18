// Kernel settings that ipvs mode maintains: F-110, F-112, the estimators. prepare-kernel.test.ts has the others.
import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import { type ConfigInput, resolveConfig } from '../../../../src/config/index.js'
import { openModelKernel, type ModelKernel } from '../../../model/index.js'
import { IpvsSettings } from '../../../../src/modes/ipvs/testing.js'
import { set, service, synced } from '../../../support/objects.js'
import { MemoryLog, PipelineLab } from '../../../support/pipeline-lab.js'

const folder = 'net/ipv4'
const arpIgnore = `${folder}/conf/all/arp_ignore`
const arpAnnounce = `${folder}/conf/all/arp_announce`
const estimation = `${folder}/vs/run_estimation`
/** Default values of a kernel, with those that ipvs mode always sets. */
const fresh = {
  [`${folder}/ip_forward`]: '1',
  [`${folder}/vs/conntrack`]: '1',
  [`${folder}/vs/expire_nodest_conn`]: '1',
  [`${folder}/vs/expire_quiescent_template`]: '1',
  [arpIgnore]: '0',
  [arpAnnounce]: '0',
  [estimation]: '1',
}

function openNode(input: ConfigInput['ipvs'], sysctls: Readonly<Record<string, string>> = fresh) {
  const kernel = openModelKernel({ sysctls })
  const log = new MemoryLog()
  const { ipvs: config } = resolveConfig({ manifests: 'none', ipvs: input })
  return { kernel, log, settings: new IpvsSettings({ config, kernel, log }) }
}

describe('settings of ipvs mode', () => {
  const cases: readonly {
    readonly name: string
    readonly input?: ConfigInput['ipvs']
    readonly changed: Readonly<Record<string, string>>
  }[] = [
    { name: 'optional settings are not written by default', changed: {} },
    {
      name: 'F-110 strict ARP',
      input: { strictARP: true },
      changed: { [arpIgnore]: '1', [arpAnnounce]: '2' },
    },
    { name: 'estimators off', input: { runEstimation: false }, changed: { [estimation]: '0' } },
    { name: 'estimators on, which is the default', input: { runEstimation: true }, changed: {} },
  ]
  for (const { name, input, changed } of cases) {
    it(name, async () => {
      const { kernel, log, settings } = openNode(input)
      await settings.ensure()
      assert.deepEqual(Object.fromEntries(kernel.sysctl.values), { ...fresh, ...changed })
      assert.deepEqual(log.find('error', ''), [])
      const { writes } = kernel.sysctl
      assert.equal(writes, Object.keys(changed).length)
      await settings.ensure()
      assert.equal(kernel.sysctl.writes, writes, 'a second call writes nothing')
    })
  }

  it('reports a refused setting once, with the remedy, and its recovery', async () => {
    const { kernel, log, settings } = openNode({ strictARP: true })
    kernel.sysctl.fault = (path) => (path.endsWith('arp_ignore') ? constants.errno.EROFS : undefined)
    await settings.ensure()
    await settings.ensure()
    assert.deepEqual(
      log.find('error', '').map(({ message }) => message),
      [
        'Kernel setting cannot be changed: net/ipv4/conf/all/arp_ignore should be 1: set it on the node, or use --ipvs-strict-arp=false',
      ],
    )
    kernel.sysctl.fault = () => undefined
    await settings.ensure()
    assert.equal(log.find('info', 'Kernel setting is correct now').length, 1)
  })

  it('reports a kernel that cannot disable estimators', async () => {
    const { [estimation]: _, ...older } = fresh
    const { log, settings } = openNode({ runEstimation: false }, older)
    await settings.ensure()
    assert.equal(log.find('error', 'run_estimation should be 0: this kernel has no such setting').length, 1)
  })
})

describe('F-112 time-outs of IPVS', () => {
  const kernels = { tcpSeconds: 900, tcpFinSeconds: 120, udpSeconds: 300 }
  const cases: readonly {
    readonly name: string
    readonly input: ConfigInput['ipvs']
    readonly expected: Partial<typeof kernels>
    readonly sets: number
  }[] = [
    { name: 'none: not read', input: {}, expected: {}, sets: 0 },
    { name: 'correct ones are not written', input: { tcpTimeoutSeconds: 900 }, expected: {}, sets: 0 },
    {
      name: 'one is written, the others stay',
      input: { udpTimeoutSeconds: 30 },
      expected: { udpSeconds: 30 },
      sets: 1,
    },
    {
      name: 'all',
      input: { tcpTimeoutSeconds: 60, tcpFinTimeoutSeconds: 30, udpTimeoutSeconds: 15 },
      expected: { tcpSeconds: 60, tcpFinSeconds: 30, udpSeconds: 15 },
      sets: 1,
    },
  ]
  for (const { name, input, expected, sets } of cases) {
    it(name, async () => {
      const { kernel, settings } = openNode(input)
      const count = countSets(kernel)
      await settings.ensure()
      await settings.ensure()
      assert.deepEqual(await kernel.ipvs.timeouts(), { ...kernels, ...expected })
      assert.equal(count(), sets)
    })
  }

  it('a refused time-out is reported and does not stop the agent', async () => {
    const { kernel, log, settings } = openNode({ tcpFinTimeoutSeconds: 60 })
    kernel.ipvs.batches.plan = {
      callFault: (call) => (call === 'setTimeouts' ? constants.errno.EINVAL : undefined),
    }
    await settings.ensure()
    await settings.ensure()
    assert.equal(
      log.find(
        'error',
        'Kernel setting cannot be changed: time-outs of IPVS should be 60 s for TCP after a FIN',
      ).length,
      1,
    )
  })
})

it('a change by another program is repaired after the next sync period', async () => {
  const lab = new PipelineLab({ config: { ipvs: { udpTimeoutSeconds: 30 } } })
  await lab.deliver(set(service('web', '10.96.0.1')), synced)
  const path = 'net/ipv4/vs/conntrack'
  lab.kernel.sysctl.values.set(path, '0')
  await lab.kernel.ipvs.setTimeouts({ tcpSeconds: 0, tcpFinSeconds: 0, udpSeconds: 7 })
  lab.registry.resetMetrics()
  await lab.clock.advance(30_000)
  assert.match(await lab.registry.metrics(), /^viaduct_drift_total\{ip_family="IPv4",kind="setting"\} 2$/mu)
  assert.equal(lab.kernel.sysctl.values.get(path), '1')
  assert.equal((await lab.kernel.ipvs.timeouts()).udpSeconds, 30)
  await lab.stop()
})

function countSets({ ipvs }: ModelKernel): () => number {
  let sets = 0
  ipvs.batches.plan = {
    callFault: (call) => {
      if (call === 'setTimeouts') sets++
      return undefined
    },
  }
  return () => sets
}
