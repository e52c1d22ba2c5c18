// Issue 18, C2, on this machine's kernel: the kernel refuses a rule of one Service, or a foreign chain jumps to a chain of Viaduct.
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { Registry } from 'prom-client'
import type { IpFamily } from '../../src/address.js'
import { compileRoute, compileSkeleton, type IptablesModeSettings } from '../../src/modes/iptables/testing.js'
import { type DesiredRoute } from '../../src/layers/xtables/index.js'
import { IptablesLedger } from '../../src/layers/xtables/testing.js'
import { openProblems, Pass } from '../../src/engine/index.js'
import { type FamilyMetrics, openMetrics } from '../../src/metrics/index.js'
import type { ServicePortKey } from '../../src/model/index.js'
import { IptablesTables } from '../../src/layers/xtables/tables.js'
import { requireFreshNamespace } from '../contract/fresh-namespace.js'
import {
  iptables,
  openRealSubject,
  save,
  type XtClient,
  type XtSubject,
} from '../contract/xtables-subjects.js'
import { ManualClock } from '../support/manual-clock.js'
import { MemoryLog } from '../support/pipeline-lab.js'
import { backends, ip, plainRoute } from '../support/routes.js'
import { formerChains } from '../../src/agent/testing.js'

requireFreshNamespace()

const addresses = {
  ipv4: { service: (i: number) => `10.96.0.${i}`, pod: (i: number) => `10.1.0.${i}` },
  ipv6: { service: (i: number) => `fd00:96::${i}`, pod: (i: number) => `fd00:1::${i}` },
} as const

/** The tables of one family, with their engine. */
class Lab {
  readonly log = new MemoryLog()
  readonly family: IpFamily
  readonly clock = new ManualClock()
  readonly ledger = new IptablesLedger({ isBeside: false })
  readonly tables: IptablesTables
  readonly #metrics: FamilyMetrics
  readonly #settings: IptablesModeSettings

  constructor(client: XtClient, family: IpFamily) {
    this.family = family
    this.#metrics = openMetrics(new Registry())[family]
    this.#settings = {
      family,
      masqueradeMark: 0x4000,
      masqueradeAll: false,
      localDetector: undefined,
      nodePortAddresses: 'all',
      localhostNodePorts: false,
      dropsInvalid: true,
      nodeIP: undefined,
      withComments: true,
    }
    this.tables = new IptablesTables({
      family,
      tables: { nat: client.xtables(family, 'nat'), filter: client.xtables(family, 'filter') },
      source: this.ledger,
      clock: this.clock,
      log: this.log,
      metrics: this.#metrics,
      problems: openProblems({ log: this.log }),
      portNameOf: (route) => route.split(':')[0],
      formerChains,
    })
    this.ledger.setSkeleton(compileSkeleton(this.#settings))
  }

  /** Adds Service `i` with session affinity. `spoil`: the kernel refuses its `recent` list, because a folder has that name. */
  claim(i: number, { spoil = false } = {}): ServicePortKey {
    const { service: serviceAddress, pod } = addresses[this.family]
    const service = `default/service-${i}`
    const route = plainRoute({
      service,
      clusterIP: ip(serviceAddress(i)),
      clusterBackends: backends(8080, pod(i)),
      affinitySeconds: 60,
    })
    const desired = compileRoute(route, this.#settings)
    this.ledger.claim(route.key, spoil ? spoiled(desired) : desired)
    this.tables.noteClaim(route.key)
    return route.key
  }

  async write(): ReturnType<IptablesTables['write']> {
    const { family, clock, log } = this
    const pass = new Pass({ family, clock, log, metrics: this.#metrics })
    return await this.tables.write(pass, { mayPrune: true })
  }

  async isServed(i: number): Promise<boolean> {
    return (await save(this.family, 'nat')).includes(`-d ${addresses[this.family].service(i)}/`)
  }

  errors(): readonly string[] {
    return this.log.find('error', 'Network programming failed').map(({ message }) => message)
  }
}

function spoiled({ chains, frontends }: DesiredRoute): DesiredRoute {
  return {
    frontends,
    chains: chains.map((chain) => ({
      ...chain,
      rules: chain.rules.map((rule) =>
        rule.recent === undefined ? rule : { ...rule, recent: { ...rule.recent, list: '..' } },
      ),
    })),
  }
}

for (const family of ['ipv4', 'ipv6'] as const) {
  describe(`tables of the kernel, ${family}`, () => {
    let subject: XtSubject
    let client: XtClient
    beforeEach(async () => {
      subject = await openRealSubject()
      client = subject.open()
    })
    afterEach(async () => {
      await client.close()
      await subject.close()
    })

    it('only the Service with a refused rule is left out, until the kernel accepts the rule', async () => {
      const lab = new Lab(client, family)
      for (let i = 1; i <= 20; i++) lab.claim(i, { spoil: i === 7 })
      assert.notEqual(await lab.write(), undefined)
      assert.deepEqual(
        [await lab.isServed(6), await lab.isServed(7), await lab.isServed(8)],
        [true, false, true],
      )
      assert.equal(lab.tables.isBehind, false)
      const [message, ...more] = lab.errors()
      assert.match(
        message ?? '',
        /Service default\/service-7: xtables: replace the table ipv. nat KUBE-.*: EINVAL/u,
      )
      assert.deepEqual(more, [])

      lab.claim(21)
      assert.notEqual(await lab.write(), undefined)
      assert.deepEqual([await lab.isServed(7), await lab.isServed(21)], [false, true])
      assert.equal(lab.tables.dueRoutes().length, 0)
      await lab.clock.advance(1000)
      assert.deepEqual(lab.tables.dueRoutes(), [lab.claim(7)])
      assert.notEqual(await lab.write(), undefined)
      assert.equal(await lab.isServed(7), true)
      assert.equal(lab.log.find('info', 'Network programming recovered').length, 1)
    })

    it('a chain to which a foreign chain jumps delays no write, and is removed after the jump', async () => {
      const lab = new Lab(client, family)
      const key = lab.claim(1)
      assert.notEqual(await lab.write(), undefined)
      const chain = /-A (KUBE-SVC-\S+)/u.exec(await save(family, 'nat'))?.[1] ?? ''
      await iptables(family, 'nat', '-N MINE')
      await iptables(family, 'nat', `-A MINE -p tcp -j ${chain}`)
      lab.ledger.claim(key, undefined)
      lab.claim(2)
      assert.notEqual(await lab.write(), undefined)
      assert.equal(lab.tables.isBehind, false)
      const saved = await save(family, 'nat')
      assert.ok(saved.includes(`:${chain} - `) && !saved.includes(`-A ${chain} `), saved)
      assert.ok(saved.includes(`-A MINE -p tcp -j ${chain}`), saved)
      assert.equal(await lab.isServed(2), true)
      assert.equal(lab.errors().length, 1)
      assert.match(
        lab.errors()[0] ?? '',
        new RegExp(`chain ${chain} stays, empty, as chain MINE jumps to it`, 'u'),
      )

      await iptables(family, 'nat', '-F MINE')
      assert.equal(await lab.tables.look('cheap'), true)
      assert.notEqual(await lab.write(), undefined)
      assert.ok(!(await save(family, 'nat')).includes(chain))
      await iptables(family, 'nat', '-X MINE')
    })

    // Before the fix the chain kept its rules, was not reported, and stayed after the jump was removed.
    it('a chain of an earlier run to which a foreign chain jumps is emptied, and removed after the jump', async () => {
      const former = new Lab(client, family)
      former.claim(1)
      assert.notEqual(await former.write(), undefined)
      const chain = /-A (KUBE-SVC-\S+)/u.exec(await save(family, 'nat'))?.[1] ?? ''
      await iptables(family, 'nat', '-N MINE')
      await iptables(family, 'nat', `-A MINE -p tcp -j ${chain}`)
      await client.close()

      client = subject.open()
      const lab = new Lab(client, family)
      lab.claim(2)
      assert.notEqual(await lab.write(), undefined)
      const saved = await save(family, 'nat')
      assert.ok(saved.includes(`:${chain} - `) && !saved.includes(`-A ${chain} `), saved)
      assert.ok(saved.includes(`-A MINE -p tcp -j ${chain}`), saved)
      assert.ok(!saved.includes(addresses[family].pod(1)), saved)
      assert.equal(await lab.isServed(2), true)
      const [message, ...more] = lab.errors()
      assert.match(message ?? '', new RegExp(`chain ${chain} stays, empty, as chain MINE jumps to it`, 'u'))
      assert.deepEqual(more, [])
      assert.equal(await lab.tables.look('cheap'), false)

      await iptables(family, 'nat', '-F MINE')
      assert.equal(await lab.tables.look('cheap'), true)
      assert.notEqual(await lab.write(), undefined)
      assert.ok(!(await save(family, 'nat')).includes(chain))
      await iptables(family, 'nat', '-X MINE')
    })
  })
}
