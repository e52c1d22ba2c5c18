// Section 11 of the facts about iptables-nft: both flavours of x_tables in use on one node.
import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import { openConflicts, OtherFlavour } from '../../../src/host/index.js'
import type { NfExpression, NfOp, XtFlavour, XtRule } from '../../../src/kernel/index.js'
import { type ModelKernel, ModelNftables, openModelKernel } from '../../model/index.js'
import { MemoryLog } from '../../support/pipeline-lab.js'

const conflict = 'Rules of other programs conflict with Viaduct'
const recovery = 'Rules of other programs no longer conflict with Viaduct'

interface Lab {
  readonly kernel: ModelKernel
  readonly log: MemoryLog
  /** Looks, and returns the new lines. */
  readonly look: (isClean?: boolean) => Promise<readonly string[]>
}

function lab(inUse: XtFlavour): Lab {
  const kernel = openModelKernel()
  const log = new MemoryLog()
  const other = new OtherFlavour({
    kernel,
    inUse,
    families: ['ipv4', 'ipv6'],
    log,
    conflicts: openConflicts(log),
  })
  const look = async (isClean = true): Promise<readonly string[]> => {
    const before = log.lines.length
    await other.look({ isClean })
    return log.lines.slice(before).map(({ level, message }) => `${level} ${message}`)
  }
  return { kernel, log, look }
}

const chain = { family: 'ipv4', table: 'filter', chain: 'FORWARD' } as const
const verdict = (code: 'drop' | 'accept'): NfExpression => ({
  kind: 'immediate',
  to: 0,
  data: { verdict: { code } },
})
const counter: NfExpression = { kind: 'counter', bytes: 0, packets: 0 }
const comment: NfExpression = { kind: 'match', name: 'comment', revision: 0, info: new Uint8Array(256) }
const conntrack: NfExpression = { kind: 'match', name: 'conntrack', revision: 3, info: new Uint8Array(168) }
const reject: NfExpression = { kind: 'target', name: 'REJECT', revision: 0, info: new Uint8Array(8) }

/** Another program makes `ip filter FORWARD` in nf_tables. */
async function forwardInNft(
  kernel: ModelKernel,
  policy: 'accept' | 'drop',
  ...rules: readonly (readonly NfExpression[])[]
): Promise<void> {
  const hook = { type: 'filter', hook: 'forward', priority: 0, policy } as const
  const ops: readonly NfOp[] = [
    { op: 'add-table', table: { family: 'ipv4', table: 'filter' } },
    { op: 'add-chain', chain: { ...chain, hook } },
    ...rules.map((expressions): NfOp => ({ op: 'add-rule', rule: { ...chain, expressions } })),
  ]
  const { state } = await new ModelNftables(kernel.nftables.namespace).apply(ops)
  assert.equal(state, 'applied')
}

describe('rules of the other flavour that drop everything', () => {
  const inNft: readonly (readonly [
    name: string,
    policy: 'accept' | 'drop',
    rules: readonly (readonly NfExpression[])[],
    cause: string | undefined,
  ])[] = [
    ['no rule', 'accept', [], undefined],
    ['the policy', 'drop', [], 'drops by its policy what no rule there accepts'],
    [
      'a rule that drops',
      'accept',
      [[counter, verdict('drop')]],
      'drops or rejects by its rule 1 what no earlier',
    ],
    [
      'a rule that rejects',
      'accept',
      [
        [conntrack, reject],
        [comment, counter, reject],
      ],
      'drops or rejects by its rule 2 what no earlier',
    ],
    ['a rule that drops some packets', 'accept', [[conntrack, counter, verdict('drop')]], undefined],
    ['a rule that accepts', 'accept', [[counter, verdict('accept')]], undefined],
  ]
  for (const [name, policy, rules, cause] of inNft) {
    it(`in nf_tables, for the flavour legacy: ${name}`, async () => {
      const { kernel, look } = lab('legacy')
      await forwardInNft(kernel, policy, ...rules)
      const lines = await look()
      assert.equal(lines.length, cause === undefined ? 0 : 1, lines.join('\n'))
      if (cause === undefined) return
      const [line = ''] = lines
      assert.ok(
        line.startsWith(`warn ${conflict}: IPv4 filter FORWARD in nf_tables ${cause.split(' ')[0]}`),
        line,
      )
      assert.ok(line.includes(cause) && line.includes('"iptables-nft -S FORWARD"'), line)
    })
  }

  const inLegacy: readonly (readonly [
    name: string,
    policy: 'ACCEPT' | 'DROP',
    rule: XtRule | undefined,
    cause?: string,
  ])[] = [
    ['the policy', 'DROP', undefined, 'drops by its policy'],
    ['a rule', 'ACCEPT', { target: { kind: 'reject' }, comment: 'mine' }, 'drops or rejects by its rule 1'],
    ['a rule for some packets', 'ACCEPT', { target: { kind: 'drop' }, protocol: 'tcp' }],
  ]
  for (const [name, policy, rule, cause] of inLegacy) {
    it(`in the legacy tables, for the flavour nft: ${name}`, async () => {
      const { kernel, look } = lab('nft')
      const table = kernel.xtNamespace.table('ipv6', 'filter')
      table.policies.set('FORWARD', policy)
      if (rule !== undefined) table.append('FORWARD', rule)
      const lines = await look()
      const start = `warn ${conflict}: IPv6 filter FORWARD in the legacy tables ${cause}`
      assert.deepEqual(
        lines.map((line) => line.startsWith(start)),
        cause === undefined ? [] : [true],
        lines.join('\n'),
      )
    })
  }

  it('are no conflict in the flavour in use, where Viaduct accepts before them', async () => {
    const { kernel, look } = lab('nft')
    await forwardInNft(kernel, 'drop')
    assert.deepEqual(await look(), [])
  })

  it('are reported once, and their end too', async () => {
    const { kernel, look } = lab('nft')
    const { policies } = kernel.xtNamespace.table('ipv4', 'filter')
    assert.deepEqual(await look(), [])
    policies.set('FORWARD', 'DROP')
    assert.equal((await look()).length, 1)
    assert.deepEqual(await look(), [])
    policies.delete('FORWARD')
    assert.deepEqual(await look(), [`info ${recovery}`])
  })

  it('keep their state while the kernel cannot be read', async () => {
    const { kernel, look } = lab('nft')
    kernel.xtNamespace.table('ipv4', 'filter').policies.set('FORWARD', 'DROP')
    await look()
    kernel.xtables('ipv4', 'filter').plan = { callFault: () => constants.errno.ENOMEM }
    assert.deepEqual(await look(), ['debug The other flavour of iptables cannot be read'])
  })

  it('a look creates no legacy table', async () => {
    const { kernel, look } = lab('nft')
    await look()
    assert.deepEqual(await kernel.activeTables('ipv4'), [])
  })
})

describe('the flavour of the node', () => {
  for (const { inUse, other } of [
    { inUse: 'nft', other: 'legacy' },
    { inUse: 'legacy', other: 'nft' },
  ] as const) {
    it(`that becomes ${other} while Viaduct uses ${inUse} is reported`, async () => {
      const { kernel, look } = lab(inUse)
      assert.deepEqual(await look(), [])
      if (other === 'legacy') kernel.xtNamespace.table('ipv4', 'mangle').addChain('KUBE-IPTABLES-HINT')
      else kernel.nftChains.chains.ipv4 = [{ table: 'mangle', chain: 'KUBE-IPTABLES-HINT' }]
      const [line = '', ...more] = await look()
      assert.ok(
        line.startsWith(`warn ${conflict}: Viaduct uses the flavour ${inUse}, but kubelet made `),
        line,
      )
      assert.deepEqual([more, await look()], [[], []])
    })
  }
})

it('a kube-proxy that makes its chains in the other flavour again is reported', async () => {
  const { kernel, look } = lab('legacy')
  kernel.nftChains.chains.ipv4 = [{ table: 'nat', chain: 'KUBE-SERVICES' }]
  assert.deepEqual(await look(false), [], 'it has not been removed yet')
  const lines = await look()
  assert.deepEqual(lines, [
    `warn ${conflict}: IPv4 nat KUBE-SERVICES in nf_tables has come back: stop the kube-proxy that makes it, and ` +
      'restart Viaduct, which removes it',
  ])
})
