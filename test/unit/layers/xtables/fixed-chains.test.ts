// Issue 36, point 9: the fixed chains of iptables mode beside the table of the Services, without the ledger of Services.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { KernelError } from '../../../../src/errors.js'
import type { XtOp } from '../../../../src/kernel/index.js'
import {
  chainNames,
  type DesiredFrontend,
  dispatchChains,
  type Skeleton,
} from '../../../../src/layers/xtables/index.js'
import { FixedChains } from '../../../../src/layers/xtables/testing.js'
import { plainRoute } from '../../../support/routes.js'

const tail = [{ comment: 'counts', target: { kind: 'return' } }] as const

function skeleton(mark: number): Skeleton {
  return {
    chains: [
      {
        table: 'nat',
        chain: chainNames.markMasquerade,
        rules: [{ target: { kind: 'mark', value: mark, mask: mark } }],
      },
      { table: 'filter', chain: chainNames.forward, rules: [] },
    ],
    hooks: [
      { table: 'nat', chain: 'OUTPUT', rules: [{ target: { kind: 'jump', chain: chainNames.services } }] },
      { table: 'filter', chain: 'FORWARD', rules: [{ target: { kind: 'jump', chain: chainNames.forward } }] },
    ],
    tails: [{ dispatch: dispatchChains.refusedServices, rules: tail }],
  }
}

function healthCheck(port: number): DesiredFrontend {
  return {
    dispatch: dispatchChains.healthChecks,
    frontend: { kind: 'health-check', protocol: 'tcp', port },
    rules: [{ protocol: 'tcp', destinationPorts: [port, port], target: { kind: 'accept' } }],
  }
}

function linesOf(ops: readonly XtOp[]): readonly string[] {
  return ops.map((op) => {
    if (op.op === 'remove-chain') return `${op.op} ${op.chain}`
    const targets = op.rules.map(({ target }) => (target.kind === 'jump' ? target.chain : target.kind))
    return [op.op, op.chain, ...targets].join(' ')
  })
}

function started(isBeside = false): FixedChains {
  const chains = new FixedChains({ isBeside })
  chains.setSkeleton(skeleton(1))
  return chains
}

const web = plainRoute()

describe('fixed chains', () => {
  it('are handed over once, with all chains that other programs look for', () => {
    const chains = started()
    assert.deepEqual(linesOf(chains.take('nat')), [
      'set-chain KUBE-MARK-MASQ mark',
      'set-chain KUBE-SERVICES',
      'set-chain KUBE-NODEPORTS',
      'set-hook OUTPUT KUBE-SERVICES',
    ])
    assert.deepEqual(linesOf(chains.take('filter')), [
      'set-chain KUBE-FORWARD',
      'set-chain KUBE-SERVICES return',
      'set-chain KUBE-EXTERNAL-SERVICES',
      'set-chain KUBE-PROXY-FIREWALL',
      'set-chain KUBE-NODEPORTS',
      'set-hook FORWARD KUBE-FORWARD',
    ])
    chains.setSkeleton(skeleton(1))
    assert.deepEqual([...chains.take('nat'), ...chains.take('filter')], [])
    assert.deepEqual([chains.countRules('nat'), chains.countRules('filter')], [2, 2])
  })

  it('are handed over by their difference when the settings or the health checks change', () => {
    const chains = started()
    for (const table of ['nat', 'filter'] as const) chains.take(table)
    chains.setSkeleton(skeleton(2))
    assert.deepEqual(linesOf(chains.take('nat')), ['set-chain KUBE-MARK-MASQ mark'])
    assert.deepEqual(chains.take('filter'), [])
    chains.claim(web.key, [healthCheck(31_000)])
    assert.deepEqual(linesOf(chains.take('filter')), ['set-chain KUBE-NODEPORTS accept'])
    assert.deepEqual(chains.take('nat'), [])
    chains.claim(web.key, [])
    assert.deepEqual(linesOf(chains.take('filter')), ['set-chain KUBE-NODEPORTS'])
  })

  it("stay when they are not desired any more: KUBE-FIREWALL is kubelet's too", () => {
    const chains = new FixedChains({ isBeside: false })
    const plain = skeleton(1)
    const guard = { table: 'filter', chain: chainNames.firewall, rules: tail } as const
    chains.setSkeleton({ ...plain, chains: [...plain.chains, guard] })
    assert.ok(linesOf(chains.take('filter')).includes('set-chain KUBE-FIREWALL return'))
    chains.setSkeleton(plain)
    assert.deepEqual(linesOf(chains.take('filter')), [])
    chains.setSkeleton({ ...plain, chains: [...plain.chains, guard] })
    assert.deepEqual(linesOf(chains.take('filter')), ['set-chain KUBE-FIREWALL return'])
  })

  it('stand beside those of a former owner under other names, and replace them in one difference', () => {
    const chains = started(true)
    assert.deepEqual(linesOf(chains.take('nat')), [
      'set-chain KUBE-MARK-MASQ mark',
      'set-chain KUBE-FW-_S',
      'set-chain KUBE-FW-_N',
      'set-hook OUTPUT KUBE-FW-_S',
    ])
    chains.standAlone()
    assert.deepEqual(linesOf(chains.take('nat')), [
      'set-chain KUBE-SERVICES',
      'set-chain KUBE-NODEPORTS',
      'remove-chain KUBE-FW-_S',
      'remove-chain KUBE-FW-_N',
      'set-hook OUTPUT KUBE-SERVICES',
    ])
  })

  it('leave out a health check whose rule the kernel refuses, until it is claimed again', () => {
    const chains = started()
    chains.claim(web.key, [healthCheck(31_000)])
    chains.take('filter')
    const error = new KernelError({ errno: 22, subsystem: 'nftables', operation: 'change the table' })
    const refusal = { chain: chainNames.nodePorts, rule: 0, error }
    assert.deepEqual(chains.leaveOut('filter', [refusal]), new Map([[web.key, error]]))
    assert.deepEqual(linesOf(chains.take('filter')), ['set-chain KUBE-NODEPORTS'])
    assert.equal(chains.leaveOut('filter', [{ ...refusal, chain: chainNames.forward }]), undefined)
    chains.claim(web.key, [healthCheck(31_000)])
    assert.deepEqual(linesOf(chains.take('filter')), ['set-chain KUBE-NODEPORTS accept'])
  })
})
