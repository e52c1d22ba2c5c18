// Issue 35, A1: an external IP that is an address of the machine, with the number of another Service's node port.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Registry } from 'prom-client'
import { StateReporter } from '../../../src/log.js'
import { openMetrics } from '../../../src/metrics/index.js'
import { trackFamily } from '../../support/tracked-family.js'
import { ConflictReports } from '../../../src/engine/index.js'
import { RouteDecisions } from '../../../src/engine/testing.js'
import { NodeTracker } from '../../../src/node/index.js'
import type { ObjectEvent } from '../../../src/source/index.js'
import { openModelKernel } from '../../model/index.js'
import { port, remove, service, set } from '../../support/objects.js'
import { MemoryLog } from '../../support/pipeline-lab.js'
import { ip } from '../../support/routes.js'

const machineAddress = '192.0.2.10'
const externalIPs = [machineAddress, '203.0.113.7']
const thief = set(service('thief', '10.96.0.66', { ports: [port(30_080)], externalIPs }))
const victim = set(
  service('victim', '10.96.0.99', { type: 'NodePort', ports: [port(80, { nodePort: 30_080 })] }),
)

class Lab {
  readonly log = new MemoryLog()
  readonly tracker = trackFamily('ipv4')
  readonly #kernel = openModelKernel()
  readonly decisions: RouteDecisions
  /** How often the machine's addresses were read. */
  readings = 0

  constructor() {
    const { links, routes } = this.#kernel
    const dumpAddresses = routes.dumpAddresses.bind(routes)
    routes.dumpAddresses = async (family) => {
      this.readings++
      return await dumpAddresses(family)
    }
    const metrics = openMetrics(new Registry()).ipv4
    const reporter = (): StateReporter =>
      new StateReporter({
        log: this.log,
        level: 'warn',
        problemLine: 'not programmed',
        recovery: 'programmed',
      })
    this.decisions = new RouteDecisions({
      family: 'ipv4',
      tracker: this.tracker,
      links,
      routes,
      metrics,
      node: new NodeTracker('node-a'),
      problems: reporter(),
      reports: new ConflictReports({ family: 'ipv4', warnings: reporter(), metrics }),
    })
  }

  async addAddress(text: string): Promise<void> {
    const address = { address: ip(text), prefixLength: 24, interfaceIndex: 1 }
    await this.#kernel.routes.apply([{ op: 'add-address', address }])
    this.decisions.applyLinks([{ kind: 'overrun' }])
  }

  /** Applies the changes, and returns the external IPs that the changed service ports have then. */
  async after(...changes: readonly ObjectEvent[]): Promise<Readonly<Record<string, readonly string[]>>> {
    for (const change of changes) this.tracker.apply(change)
    const found: Record<string, readonly string[]> = {}
    for (const key of [...this.tracker.take()].toSorted())
      found[key] = (await this.decisions.decide(key))?.externalIPs ?? []
    return found
  }
}

describe('a node port of another Service', () => {
  it('takes the external IP of the machine when it appears, and gives it back when it goes', async () => {
    const lab = new Lab()
    await lab.addAddress(machineAddress)
    assert.deepEqual(await lab.after(thief), { 'default/thief:/TCP': externalIPs })
    assert.equal(lab.readings, 0)
    assert.deepEqual(await lab.after(victim), {
      'default/thief:/TCP': ['203.0.113.7'],
      'default/victim:/TCP': [],
    })
    assert.match(
      JSON.stringify(lab.log.lines),
      /tcp 192\.0\.2\.10:30080 already belongs to default\/victim:\/TCP, whose node port it is/u,
    )
    const after = await lab.after(remove('Service', 'victim'))
    assert.deepEqual(after, { 'default/thief:/TCP': externalIPs, 'default/victim:/TCP': [] })
  })

  it('takes an address that comes to the machine later', async () => {
    const lab = new Lab()
    assert.deepEqual((await lab.after(victim, thief))['default/thief:/TCP'], externalIPs)
    await lab.addAddress(machineAddress)
    assert.deepEqual(await lab.after(), { 'default/thief:/TCP': ['203.0.113.7'] })
  })

  // The addresses of the last reading counted for ever once no service port depended on them.
  it('takes an address that came while nothing depended on addresses', async () => {
    const lab = new Lab()
    await lab.after(victim, thief)
    await lab.after(remove('Service', 'victim'))
    await lab.addAddress(machineAddress)
    assert.deepEqual((await lab.after(victim))['default/thief:/TCP'], ['203.0.113.7'])
  })
})
