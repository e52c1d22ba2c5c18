// Each mode describes a route before and after the first run of its pipeline.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { endpoint, port, service, set, slice, synced } from '../support/objects.js'
import { IptablesLab, ruleLines } from '../support/iptables-lab.js'
import { PipelineLab } from '../support/pipeline-lab.js'
import { backends, ip, plainRoute } from '../support/routes.js'

const route = plainRoute({
  clusterIP: ip('10.96.0.1'),
  nodePort: 30080,
  isExternallyAccessible: true,
  isExternalLocal: true,
  clusterBackends: backends(8080, '10.1.0.1'),
  localBackends: backends(8080, '10.1.0.1'),
})
const world = [
  set(
    service('web', '10.96.0.1', {
      type: 'NodePort',
      externalTrafficPolicy: 'Local',
      externalIPs: ['192.0.2.1'],
      ports: [port(80, { nodePort: 30080 })],
    }),
  ),
  set(slice('web-1', 'web', [endpoint('10.1.0.1', { nodeName: 'here' })])),
  synced,
]

describe('the description of a route', () => {
  it('of ipvs mode has the marks of the route, and changes nothing', async () => {
    const lab = new PipelineLab()
    const described = { ...route, externalIPs: [ip('192.0.2.1')] }
    const lines = () => lab.pipelines.get('ipv4')?.describe(described) ?? assert.fail()
    assert.deepEqual(lines(), [])
    await lab.deliver(...world)
    const ops = lab.takeOps()
    const marks = ops.flatMap((line) => /^add-virtual-server mark (\d+)$/u.exec(line)?.[1] ?? [])
    assert.equal(marks.length, 2, ops.join('\n'))
    for (const mark of marks) assert.ok(lines().includes(`-A -f ${mark} -s rr`), lines().join('\n'))
    assert.ok(lines().includes('-a -t 10.96.0.1:80 -r 10.1.0.1:8080 -m -w 1'))
    await lab.clock.advance(31_000)
    assert.deepEqual(lab.takeOps(), [])
    await lab.stop()
  })

  it('of iptables mode has the rules of the tables, and changes nothing', async () => {
    const lab = new IptablesLab()
    const described = { ...route, externalIPs: [ip('192.0.2.1')] }
    const lines = () => lab.pipelines.get('ipv4')?.describe(described) ?? assert.fail()
    assert.deepEqual(lines(), [])
    await lab.deliver(...world)
    const { writes } = lab
    const rules = ruleLines(lab.kernel.xtNamespace)
    const wanted = lines().filter((line) => line.startsWith('-A '))
    assert.ok(wanted.length > 5, wanted.join('\n'))
    for (const line of wanted) {
      const [, chain = '', ...words] = line.split(' ')
      assert.ok(
        rules.some((rule) => rule.includes(chain) && rule.endsWith(words.join(' '))),
        `${line}\n${rules.join('\n')}`,
      )
    }
    await lab.clock.advance(31_000)
    assert.equal(lab.writes, writes)
    await lab.stop()
  })
})
