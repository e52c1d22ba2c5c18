import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { BugError } from '../../../../src/errors.js'
import type { XtOp } from '../../../../src/kernel/index.js'
import { type DesiredRoute, dispatchChains } from '../../../../src/layers/xtables/index.js'
import { IptablesLedger } from '../../../../src/layers/xtables/testing.js'
import type { ServicePortKey } from '../../../../src/model/index.js'
import {
  compileRoute,
  compileSkeleton,
  type IptablesModeSettings,
} from '../../../../src/modes/iptables/testing.js'
import { backends, plainRoute } from '../../../support/routes.js'

const settings: IptablesModeSettings = {
  family: 'ipv4',
  masqueradeMark: 0x4000,
  masqueradeAll: false,
  localDetector: undefined,
  nodePortAddresses: 'all',
  localhostNodePorts: false,
  dropsInvalid: true,
  nodeIP: undefined,
  withComments: true,
}
const { key } = plainRoute()

function web(...addresses: readonly string[]): DesiredRoute {
  const clusterBackends = backends(8080, ...addresses)
  return compileRoute(plainRoute({ clusterBackends, hasEndpoints: addresses.length > 0 }), settings)
}

/** The operations for each table, by name. Both tables acknowledge them. */
function take(ledger: IptablesLedger): Readonly<Record<'nat' | 'filter', readonly string[]>> {
  return { nat: ledger.take('nat').map(nameOf), filter: ledger.take('filter').map(nameOf) }
}

function nameOf({ op, chain }: XtOp): string {
  return `${op} ${chain.startsWith('KUBE-SVC-') ? 'KUBE-SVC' : chain}`
}

function started(): IptablesLedger {
  const ledger = new IptablesLedger({ isBeside: false })
  ledger.setSkeleton(compileSkeleton(settings))
  ledger.claim(key, web('10.1.0.1'))
  take(ledger)
  return ledger
}

describe('the ledger of iptables mode', () => {
  it('sends no operation twice', () => {
    const ledger = started()
    assert.deepEqual(take(ledger), { nat: [], filter: [] })
    ledger.setSkeleton(compileSkeleton(settings))
    assert.deepEqual(take(ledger), { nat: [], filter: [] })
  })

  it('counts the health check port that the ports of a Service share once', () => {
    const ledger = started()
    const { frontend: own } = ledger.sizes
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- another port of the Service
    const second = 'default/web:second/TCP' as ServicePortKey
    const dispatch = dispatchChains.healthChecks
    const frontend = { kind: 'health-check', protocol: 'tcp', port: 30_999 } as const
    const rules = [{ target: { kind: 'accept' } }] as const
    const check = { chains: [], frontends: [{ dispatch, frontend, rules }] }
    const { chains, frontends } = web('10.1.0.1')
    ledger.claim(key, { chains, frontends: [...frontends, ...check.frontends] })
    ledger.claim(second, check)
    assert.equal(ledger.sizes.frontend, own + 1)
    ledger.claim(second, undefined)
    assert.equal(ledger.sizes.frontend, own + 1)
    ledger.claim(key, web('10.1.0.1'))
    assert.equal(ledger.sizes.frontend, own)
  })

  it('sends chains of routes before the rules that jump to them', () => {
    const ledger = new IptablesLedger({ isBeside: false })
    ledger.claim(key, web('10.1.0.1'))
    assert.deepEqual(ledger.takeChains('nat').map(nameOf), ['set-chain KUBE-SVC'])
    assert.deepEqual(take(ledger).nat, ['set-chain KUBE-SERVICES', 'set-chain KUBE-NODEPORTS'])
  })

  it('sends only chains with changed rules when a route is compiled again', () => {
    const ledger = started()
    ledger.claim(key, web('10.1.0.2'))
    assert.deepEqual(take(ledger).nat, ['set-chain KUBE-SVC'])
    ledger.claim(key, web('10.1.0.2'))
    assert.deepEqual(take(ledger).nat, [])
  })

  it('removes the former chains of a changed route, and all chains of a deleted one', () => {
    const ledger = started()
    ledger.claim(key, web())
    assert.deepEqual(take(ledger), {
      nat: ['remove-chain KUBE-SVC', 'set-chain KUBE-SERVICES'],
      filter: ['set-chain KUBE-SERVICES'],
    })
    ledger.claim(key, undefined)
    assert.deepEqual(take(ledger), { nat: [], filter: [] }, 'a second removal has no effect')
    assert.ok(ledger.hasSpentRefusals)
    ledger.dropRefusals()
    assert.deepEqual(take(ledger), { nat: [], filter: ['set-chain KUBE-SERVICES'] })
  })

  it('keeps a refusal that is requested again before its removal', () => {
    const ledger = started()
    ledger.claim(key, web())
    take(ledger)
    ledger.claim(key, web('10.1.0.1'))
    ledger.claim(key, web())
    assert.ok(!ledger.hasSpentRefusals)
    assert.deepEqual(take(ledger).filter, [])
  })

  it('drops a refusal that was never sent to filter', () => {
    const ledger = started()
    ledger.claim(key, web())
    ledger.claim(key, web('10.1.0.1'))
    assert.ok(!ledger.hasSpentRefusals)
    assert.deepEqual(take(ledger).filter, [])
  })

  it('counts the rules of a table after the operations', () => {
    const ledger = started()
    const before = ledger.countRules('nat')
    ledger.claim(key, web('10.1.0.1', '10.1.0.2', '10.1.0.3'))
    take(ledger)
    assert.equal(ledger.countRules('nat'), before + 2)
    ledger.claim(key, undefined)
    take(ledger)
    assert.equal(ledger.countRules('nat'), before - 2, 'its own rule and the jump to it')
  })

  it('refuses a chain of another route and changes nothing', () => {
    const ledger = started()
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a key that no Service has
    const stranger = 'default/other:/TCP' as ServicePortKey
    assert.throws(
      () => ledger.claim(stranger, web('10.9.9.9')),
      (error) =>
        error instanceof BugError && /KUBE-SVC-\w+ of default\/other:\/TCP has the name/u.test(error.message),
    )
    assert.deepEqual(take(ledger), { nat: [], filter: [] })
  })
})

describe('the ledger beside a former owner', () => {
  it('keeps its base chains, and empties the chains to which they may jump', () => {
    const ledger = new IptablesLedger({ isBeside: true })
    ledger.setSkeleton(compileSkeleton(settings))
    ledger.claim(key, web('10.1.0.1'))
    const { nat } = take(ledger)
    assert.ok(!nat.includes('set-chain KUBE-SERVICES'))
    assert.ok(nat.includes('set-chain KUBE-FW-_S'))
    ledger.claim(key, undefined)
    const emptied = ledger.take('nat').find(({ chain }) => chain.startsWith('KUBE-SVC-'))
    assert.deepEqual(emptied && { ...emptied, chain: '' }, { op: 'set-chain', chain: '', rules: [] })
    take(ledger)
    ledger.standAlone()
    const alone = take(ledger).nat
    for (const op of ['remove-chain KUBE-SVC', 'remove-chain KUBE-FW-_S', 'set-chain KUBE-SERVICES'])
      assert.ok(alone.includes(op), op)
  })
})
