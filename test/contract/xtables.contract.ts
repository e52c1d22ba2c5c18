// Laws of Xtables, run on the model and on the kernel.
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { xtHooks, XtState } from '../../src/kernel/index.js'
import type { XtDrift, Xtables, XtRule, XtTableName } from '../../src/kernel/index.js'
import { ip } from './law.js'
import {
  accept,
  acceptText,
  content,
  counted,
  hook,
  jump,
  leave,
  leaveText,
  mark,
  markText,
  masquerade,
  notCounted,
  nothingDrifted,
  refused,
  remove,
  set,
  written,
  type Law,
} from './xtables-lab.js'
import { ruleKinds } from './xtables-kinds.js'
import type { OtherProgram, XtClient, XtSubject } from './xtables-subjects.js'

/** Runs each law for both families, on table nat of a namespace with empty tables. */
export function xtablesContract(subject: string, openSubject: () => Promise<XtSubject>): void {
  for (const family of ['ipv4', 'ipv6'] as const) {
    describe(`${subject}: Xtables, ${family}`, () => {
      let namespace: XtSubject
      let clients: XtClient[] = []
      const open = (table: XtTableName): Xtables => {
        const client = namespace.open()
        clients.push(client)
        return client.xtables(family, table)
      }
      beforeEach(async () => {
        namespace = await openSubject()
      })
      afterEach(async () => {
        await Promise.all(clients.map((client) => client.close()))
        clients = []
        await namespace.close()
      })
      const law: Law = (name, run) => {
        it(name, () =>
          run({
            flavour: namespace.flavour,
            family,
            xtables: open('nat'),
            other: namespace.other(family, 'nat'),
            restarted: () => open('nat'),
            of: open,
          }),
        )
      }
      chainLaws(law)
      hookLaws(law)
      foreignLaws(law)
      pruneLaws(law)
      driftLaws(law)
      refusalLaws(law)
      for (const table of ['nat', 'filter', 'mangle', 'raw'] as const)
        it(`every kind of rule of table ${table} is as iptables-save prints it`, () =>
          printsEveryKind(open(table), namespace.other(family, table)))
    })
  }
}

async function printsEveryKind(xtables: Xtables, other: OtherProgram): Promise<void> {
  const kinds = ruleKinds(xtables.family, xtables.table)
  const rules = kinds.map(({ rule }) => rule)
  await xtables.apply([set('VIADUCT-TARGET'), set('VIADUCT-RULES', ...rules)])
  const printed = (await other.list())['VIADUCT-RULES']
  assert.deepEqual(
    printed,
    kinds.map(({ text }) => text),
  )
  assert.deepEqual(await xtables.compare(), nothingDrifted)
  assert.equal((await xtables.apply([])).isWritten, false)
}

function chainLaws(law: Law): void {
  law('load loads the modules of rules without a change, even if their set is absent', async (lab) => {
    const { xtables } = lab
    const asking: XtRule = {
      ...mark,
      set: { name: 'viaduct-none', directions: ['dst', 'dst'] },
      comment: 'a',
    }
    await xtables.load([set('KUBE-A', asking, masquerade), hook('PREROUTING', jump('KUBE-A'))])
    assert.equal((await xtables.apply([])).isWritten, false)
    assert.deepEqual(await content(lab), {})
  })

  law('an empty table is as desired when nothing is desired', async ({ flavour, family, xtables }) => {
    const outcome = await xtables.apply([])
    // Four policies, and the entry at the end of the table.
    const legacyBytes = family === 'ipv4' ? 4 * 152 + 176 : 4 * 208 + 232
    const [entries, bytes] = flavour === 'nft' ? notCounted : [5, legacyBytes]
    assert.deepEqual([outcome.isWritten, outcome.entries, outcome.bytes], [false, entries, bytes])
    assert.deepEqual(await xtables.chains(), [])
  })

  law('a chain is set, replaced, and removed', async (lab) => {
    const { xtables } = lab
    assert.equal(await written(xtables, [set('KUBE-A', accept, mark)]), true)
    assert.deepEqual(await content(lab), { 'KUBE-A': [acceptText, markText] })
    assert.deepEqual(await xtables.chains(), [counted(lab.flavour, 'KUBE-A', 2)])
    assert.equal(await written(xtables, [set('KUBE-A', leave)]), true)
    assert.deepEqual(await content(lab), { 'KUBE-A': [leaveText] })
    assert.equal(await written(xtables, [remove('KUBE-A')]), true)
    assert.deepEqual(await content(lab), {})
  })

  law('present chains are not written again', async ({ xtables, restarted }) => {
    const ops = [set('KUBE-A', jump('KUBE-B'), mark), set('KUBE-B', accept), hook('OUTPUT', jump('KUBE-A'))]
    const first = await xtables.apply(ops)
    const again = await xtables.apply(ops)
    assert.deepEqual([first.isWritten, again.isWritten], [true, false])
    assert.deepEqual([again.entries, again.bytes], [first.entries, first.bytes])
    assert.equal(await written(xtables, []), false)
    assert.equal(await written(restarted(), ops), false)
  })

  law('chains of one batch jump to each other in any order', async (lab) => {
    const ops = [
      set('KUBE-1', jump('KUBE-2'), jump('KUBE-3', { protocol: 'tcp' })),
      set('KUBE-3', { target: { kind: 'goto', chain: 'KUBE-4' } }),
      set('KUBE-2', jump('KUBE-4')),
      set('KUBE-4', { target: { kind: 'return' } }),
    ]
    const expected = {
      'KUBE-1': ['-j KUBE-2', '-p tcp -j KUBE-3'],
      'KUBE-3': ['-g KUBE-4'],
      'KUBE-2': ['-j KUBE-4'],
      'KUBE-4': ['-j RETURN'],
    }
    assert.equal(await written(lab.xtables, ops), true)
    assert.deepEqual(await content(lab), expected)
    // Every jump moves.
    await written(lab.xtables, [
      set('KUBE-1', mark, mark, ...(ops[0]?.op === 'set-chain' ? ops[0].rules : [])),
    ])
    const before = [markText, markText]
    assert.deepEqual(await content(lab), { ...expected, 'KUBE-1': [...before, ...expected['KUBE-1']] })
  })

  law('a chain is removed together with the jump to it', async (lab) => {
    await written(lab.xtables, [set('KUBE-A', jump('KUBE-B'), mark), set('KUBE-B', accept)])
    await written(lab.xtables, [remove('KUBE-B'), set('KUBE-A', mark)])
    assert.deepEqual(await content(lab), { 'KUBE-A': [markText] })
  })

  law('the last of several operations on one chain wins', async (lab) => {
    await written(lab.xtables, [set('KUBE-A', accept), set('KUBE-A', leave), set('KUBE-B'), remove('KUBE-B')])
    assert.deepEqual(await content(lab), { 'KUBE-A': [leaveText] })
    await written(lab.xtables, [remove('KUBE-A'), set('KUBE-A', mark)])
    assert.deepEqual(await content(lab), { 'KUBE-A': [markText] })
  })

  law('staged operations come into force with the next apply, and not before', async (lab) => {
    const { xtables } = lab
    await written(xtables, [set('KUBE-A', accept), set('KUBE-C', leave)])
    await xtables.stage([set('KUBE-A', jump('KUBE-B')), remove('KUBE-C')])
    await xtables.stage([set('KUBE-B', mark)])
    assert.deepEqual(await content(lab), { 'KUBE-A': [acceptText], 'KUBE-C': [leaveText] })
    assert.deepEqual((await xtables.compare()).missing, ['KUBE-B'])
    assert.equal(await written(xtables, []), true)
    assert.deepEqual(await content(lab), { 'KUBE-A': ['-j KUBE-B'], 'KUBE-B': [markText] })
    assert.equal(await written(xtables, []), false)
  })

  law('the removal of an absent chain changes nothing', async ({ xtables }) => {
    assert.equal(await written(xtables, [remove('KUBE-NONE')]), false)
  })

  law('packets of a chain are counted rule by rule', async ({ xtables }) => {
    await written(xtables, [
      set('KUBE-A', jump('KUBE-B'), mark, accept),
      set('KUBE-B'),
      hook('OUTPUT', jump('KUBE-A')),
    ])
    assert.deepEqual([...(await xtables.packets(['KUBE-C', 'KUBE-A', 'KUBE-B']))], [[], [0, 0, 0], []])
  })

  law('present chains keep their places, new ones follow', async ({ xtables }) => {
    await written(xtables, [set('KUBE-M', mark), set('KUBE-A', mark)])
    await written(xtables, [set('KUBE-B', mark), set('KUBE-M', accept)])
    const names = (await xtables.chains()).map(({ chain }) => chain)
    assert.deepEqual(names, ['KUBE-M', 'KUBE-A', 'KUBE-B'])
  })

  law('thousands of chains fit into one batch', async ({ flavour, xtables }) => {
    const names = Array.from({ length: 2000 }, (_, i) => `KUBE-SVC-${String(i).padStart(16, '0')}`)
    const ops = names.map((chain, i) => set(chain, mark, ...(i === 0 ? [] : [jump(names[0] ?? '')])))
    const outcome = await xtables.apply(ops)
    assert.equal(outcome.entries, flavour === 'nft' ? 0 : 5 + 2000 * 4 - 1)
    assert.equal((await xtables.chains()).length, 2000)
    await written(xtables, names.map(remove))
    assert.deepEqual(await xtables.chains(), [])
  })

  law('tables are independent of each other', async ({ flavour, xtables, of }) => {
    const filter = of('filter')
    await written(filter, [set('KUBE-A', leave), hook('FORWARD', jump('KUBE-A'))])
    assert.deepEqual(await xtables.chains(), [])
    assert.deepEqual(await filter.chains(), [counted(flavour, 'KUBE-A', 1)])
  })

  law('EBADF after close()', async ({ xtables }) => {
    await xtables.apply([])
    await xtables.close()
    await xtables.close()
    const calls = [
      xtables.stage([]),
      xtables.apply([]),
      xtables.check(),
      xtables.compare(),
      xtables.packets(['A']),
    ]
    for (const call of calls) await refused(call, 'EBADF')
  })
}

function hookLaws(law: Law): void {
  const toA = '-j KUBE-A'
  const setUp = [set('KUBE-A', mark), set('KUBE-B', accept), hook('PREROUTING', jump('KUBE-A'))]

  law('rules of a hook go to its head, before foreign rules', async (lab) => {
    await lab.other.append('PREROUTING', accept)
    await written(lab.xtables, setUp)
    assert.deepEqual((await content(lab))['PREROUTING'], [toA, acceptText])
  })

  law('rules of a hook keep their place after foreign rules', async (lab) => {
    await written(lab.xtables, setUp)
    await lab.other.prepend('PREROUTING', accept)
    await lab.other.append('PREROUTING', leave)
    assert.equal(await written(lab.xtables, setUp), false)
    await written(lab.xtables, [set('KUBE-A', leave)])
    assert.deepEqual((await content(lab))['PREROUTING'], [acceptText, toA, leaveText])
    assert.equal(await written(lab.restarted(), [...setUp, set('KUBE-A', leave)]), false)
  })

  law('foreign rules may stand between our rules', async (lab) => {
    await written(lab.xtables, [...setUp, hook('PREROUTING', jump('KUBE-A'), jump('KUBE-B'))])
    await lab.other.deleteRule('PREROUTING', 1)
    await lab.other.append('PREROUTING', accept)
    await lab.other.append('PREROUTING', jump('KUBE-B'))
    assert.equal((await lab.xtables.apply([])).isWritten, false)
    assert.deepEqual((await content(lab))['PREROUTING'], [toA, acceptText, '-j KUBE-B'])
  })

  law('rules of a hook move to its head when their order differs', async (lab) => {
    await written(lab.xtables, setUp)
    await lab.other.prepend('PREROUTING', accept)
    await written(lab.xtables, [hook('PREROUTING', jump('KUBE-B'), jump('KUBE-A'))])
    assert.deepEqual((await content(lab))['PREROUTING'], ['-j KUBE-B', toA, acceptText])
  })

  law('our earlier rules of a hook are removed, also those that do not jump', async (lab) => {
    const invalid: XtRule = { state: { bits: XtState.invalid }, target: { kind: 'accept' } }
    await written(lab.xtables, [...setUp, hook('PREROUTING', invalid, jump('KUBE-A'))])
    await lab.other.append('PREROUTING', accept)
    await written(lab.xtables, [hook('PREROUTING', jump('KUBE-B'))])
    assert.deepEqual((await content(lab))['PREROUTING'], ['-j KUBE-B', acceptText])
    await written(lab.xtables, [hook('PREROUTING')])
    assert.deepEqual((await content(lab))['PREROUTING'], [acceptText])
  })

  law('jumps to our chains that are no longer desired are removed', async (lab) => {
    await written(lab.xtables, setUp)
    await lab.other.append('PREROUTING', jump('KUBE-A', { protocol: 'tcp' }))
    await lab.other.append('OUTPUT', jump('KUBE-A'))
    const restarted = lab.restarted()
    await written(restarted, [...setUp, hook('OUTPUT', jump('KUBE-B'))])
    const { PREROUTING, OUTPUT } = await content(lab)
    assert.deepEqual({ PREROUTING, OUTPUT }, { PREROUTING: [toA], OUTPUT: ['-j KUBE-B'] })
  })

  law(
    'a chain that is removed takes the jumps from hooks with it, also from those that were never set',
    async (lab) => {
      await written(lab.xtables, setUp)
      await lab.other.append('OUTPUT', jump('KUBE-A'))
      await lab.other.append('OUTPUT', accept)
      await written(lab.restarted(), [remove('KUBE-A')])
      const after = await content(lab)
      assert.deepEqual(
        [after['PREROUTING'], after['OUTPUT'], after['KUBE-A']],
        [undefined, [acceptText], undefined],
      )
    },
  )

  law('rules can be set in every hook of the table', async (lab) => {
    await written(lab.xtables, [
      set('KUBE-A', mark),
      ...xtHooks.nat.map((name) => hook(name, jump('KUBE-A'))),
    ])
    const after = await content(lab)
    assert.deepEqual(
      xtHooks.nat.map((name) => after[name]),
      xtHooks.nat.map(() => [toA]),
    )
  })
}

function foreignLaws(law: Law): void {
  law('foreign chains and rules stay in their order', async (lab) => {
    const { other, xtables, family } = lab
    const source = { address: ip(family === 'ipv4' ? '192.0.2.0' : '2001:db8::'), prefixLength: 32 }
    for (const chain of ['DOCKER', 'ALPHA']) await other.addChain(chain)
    await other.append('DOCKER', jump('ALPHA', { inInterface: { name: 'docker0', isInverted: true } }))
    await other.append('ALPHA', { source, target: { kind: 'return' } })
    await other.append('POSTROUTING', masquerade)
    await other.append('POSTROUTING', jump('DOCKER'))
    const before = await content(lab)
    await written(xtables, [
      set('KUBE-A', mark),
      set('KUBE-B', jump('KUBE-A')),
      hook('OUTPUT', jump('KUBE-B')),
    ])
    await written(xtables, [set('KUBE-A', mark, mark), hook('POSTROUTING', jump('KUBE-A'))])
    const { POSTROUTING = [], ...rest } = before
    assert.deepEqual(await content(lab), {
      ...rest,
      OUTPUT: ['-j KUBE-B'],
      POSTROUTING: ['-j KUBE-A', ...POSTROUTING],
      'KUBE-A': [markText, markText],
      'KUBE-B': ['-j KUBE-A'],
    })
    await written(xtables, [hook('POSTROUTING'), hook('OUTPUT'), remove('KUBE-B'), remove('KUBE-A')])
    assert.deepEqual(await content(lab), before)
  })

  law('our chains may jump to a foreign chain', async (lab) => {
    await lab.other.addChain('DOCKER')
    await written(lab.xtables, [set('KUBE-A', jump('DOCKER'))])
    assert.deepEqual(await content(lab), { DOCKER: [], 'KUBE-A': ['-j DOCKER'] })
  })

  law('foreign chains may jump to our chains', async (lab) => {
    await written(lab.xtables, [set('KUBE-A', mark)])
    await lab.other.addChain('DOCKER')
    await lab.other.append('DOCKER', jump('KUBE-A'))
    await written(lab.xtables, [set('KUBE-B', mark), set('KUBE-A', mark, mark)])
    assert.deepEqual((await content(lab))['DOCKER'], ['-j KUBE-A'])
  })

  law('a foreign chain of the same name becomes ours', async (lab) => {
    await lab.other.addChain('KUBE-A')
    await lab.other.append('KUBE-A', accept)
    await written(lab.xtables, [set('KUBE-A', mark)])
    assert.deepEqual(await content(lab), { 'KUBE-A': [markText] })
  })
}

function pruneLaws(law: Law): void {
  const leftovers = [
    set('KUBE-SVC-OLD', jump('KUBE-SEP-OLD')),
    set('KUBE-SEP-OLD', mark),
    set('KUBE-SERVICES', jump('KUBE-SVC-OLD')),
    set('KUBE-PROXY-CANARY'),
    hook('OUTPUT', jump('KUBE-SERVICES')),
    hook('INPUT', jump('KUBE-SVC-OLD')),
  ]

  law('chains of a former owner are removed with the jumps to them', async (lab) => {
    await written(lab.xtables, leftovers)
    await lab.other.addChain('DOCKER')
    await lab.other.append('INPUT', jump('DOCKER'))
    const next = [set('KUBE-SERVICES', mark), hook('OUTPUT', jump('KUBE-SERVICES'))]
    const restarted = lab.restarted()
    assert.equal(await written(restarted, next, ['KUBE-SVC-*', 'KUBE-SEP-*', 'KUBE-PROXY-CANARY']), true)
    assert.deepEqual(await content(lab), {
      DOCKER: [],
      'KUBE-SERVICES': [markText],
      INPUT: ['-j DOCKER'],
      OUTPUT: ['-j KUBE-SERVICES'],
    })
    assert.equal(await written(restarted, [], ['KUBE-SVC-*']), false)
  })

  law('without patterns nothing is removed; `?` matches only chains without rules', async (lab) => {
    await written(lab.xtables, leftovers)
    const restarted = lab.restarted()
    assert.equal(await written(restarted, []), false)
    assert.equal(await written(restarted, [], ['KUBE-SVC', 'KUBE', 'SVC-*', 'KUBE-SEP-OLD?']), false)
    assert.equal(await written(restarted, [], ['KUBE-PROXY-CANARY?']), true)
    assert.equal('KUBE-PROXY-CANARY' in (await content(lab)), false)
  })

  law('a desired chain stays although its name matches', async (lab) => {
    await written(lab.xtables, [...leftovers, set('KUBE-SVC-NEW', mark)])
    assert.equal(await written(lab.xtables, [], ['KUBE-*']), false)
  })

  law('a chain that foreign chains jump to is emptied, and removed with the last jump', async (lab) => {
    await written(lab.xtables, leftovers)
    await lab.other.addChain('DOCKER')
    await lab.other.append('DOCKER', jump('KUBE-SVC-OLD'))
    let restarted = lab.xtables
    for (const isWritten of [true, false]) {
      restarted = lab.restarted()
      const outcome = await restarted.apply([], { prune: ['KUBE-*'] })
      assert.deepEqual(outcome.kept, [{ chain: 'KUBE-SVC-OLD', by: 'DOCKER' }])
      assert.equal(outcome.isWritten, isWritten)
      assert.deepEqual(await content(lab), { DOCKER: ['-j KUBE-SVC-OLD'], 'KUBE-SVC-OLD': [] })
      assert.deepEqual((await restarted.apply([])).kept, outcome.kept)
      assert.deepEqual(await restarted.compare(), nothingDrifted)
    }
    assert.deepEqual((await restarted.apply([set('KUBE-SVC-OLD', mark)])).kept, [])
    assert.equal((await restarted.apply([remove('KUBE-SVC-OLD')])).kept.length, 1)
    await lab.other.flush('DOCKER')
    assert.deepEqual(await restarted.compare(), { missing: [], changed: ['KUBE-SVC-OLD'] })
    assert.deepEqual((await restarted.apply([])).kept, [])
    await lab.other.addChain('KUBE-SVC-OLD')
    assert.equal(await written(restarted, []), false)
    await lab.other.append('DOCKER', jump('KUBE-SVC-OLD'))
    assert.equal(await written(restarted, [], ['KUBE-SVC-OLD?']), false)
  })
}

function sorted({ missing, changed }: XtDrift): XtDrift {
  return { missing: missing.toSorted(), changed: changed.toSorted() }
}

function driftLaws(law: Law): void {
  const ops = [
    set('KUBE-A', jump('KUBE-B'), mark),
    set('KUBE-B', accept),
    hook('OUTPUT', jump('KUBE-A')),
    hook('PREROUTING', jump('KUBE-A')),
  ]

  law('the check fails before the first apply', async ({ xtables }) => {
    assert.equal(await xtables.check(), false)
  })

  law('nothing is missing when nothing is desired', async ({ xtables, other }) => {
    await other.append('OUTPUT', accept)
    assert.deepEqual(await xtables.compare(), nothingDrifted)
  })

  const drifts: readonly (readonly [
    what: string,
    drift: (other: OtherProgram) => Promise<void>,
    expected: { readonly missing: readonly string[]; readonly changed: readonly string[] },
  ])[] = [
    ['a rule of another program', (other) => other.append('INPUT', accept), nothingDrifted],
    ['a chain of another program', (other) => other.addChain('DOCKER'), nothingDrifted],
    ['a rule deleted', (other) => other.deleteRule('KUBE-A', 1), { missing: [], changed: ['KUBE-A'] }],
    ['a rule added', (other) => other.append('KUBE-B', leave), { missing: [], changed: ['KUBE-B'] }],
    ['a chain flushed', (other) => other.flush('KUBE-A'), { missing: [], changed: ['KUBE-A'] }],
    ['a hook flushed', (other) => other.flush('OUTPUT'), { missing: [], changed: ['OUTPUT'] }],
    [
      'a chain removed',
      async (other) => {
        await other.flush('KUBE-A')
        await other.flush('KUBE-B')
        await other.removeChain('KUBE-B')
      },
      { missing: ['KUBE-B'], changed: ['KUBE-A'] },
    ],
    [
      'everything gone',
      async (other) => {
        for (const chain of ['OUTPUT', 'PREROUTING', 'KUBE-A', 'KUBE-B']) await other.flush(chain)
        for (const chain of ['KUBE-A', 'KUBE-B']) await other.removeChain(chain)
      },
      { missing: ['KUBE-A', 'KUBE-B'], changed: ['OUTPUT', 'PREROUTING'] },
    ],
  ]
  for (const [what, drift, expected] of drifts) {
    law(`${what}: the check fails, the comparison names it, an empty apply repairs it`, async (lab) => {
      const { xtables, other } = lab
      await written(xtables, ops)
      assert.deepEqual(xtables.takeRepairs(), nothingDrifted)
      const before = await content(lab)
      await drift(other)
      // Legacy has the size of the table, nft the content of Viaduct's part.
      const isOfOthers = lab.flavour === 'nft' && expected === nothingDrifted
      assert.equal(await xtables.check(), isOfOthers)
      const { missing, changed } = await xtables.compare()
      assert.deepEqual(sorted({ missing, changed }), expected)
      const isOurs = missing.length + changed.length > 0
      assert.equal(await written(xtables, []), isOurs)
      if (isOurs) assert.deepEqual(await content(lab), before)
      assert.deepEqual(sorted(xtables.takeRepairs()), expected)
      assert.deepEqual(xtables.takeRepairs(), nothingDrifted)
    })
  }

  law('changes that operations and patterns require are no repairs, those beside them are', async (lab) => {
    const { xtables, other } = lab
    await written(xtables, ops)
    await other.addChain('KUBE-OLD')
    await other.append('OUTPUT', jump('KUBE-OLD'))
    await written(xtables, [set('KUBE-B', leave)], ['KUBE-OLD'])
    assert.deepEqual(xtables.takeRepairs(), nothingDrifted)
    for (const chain of ['KUBE-A', 'KUBE-B', 'PREROUTING']) await other.flush(chain)
    await written(xtables, [set('KUBE-B', mark), hook('OUTPUT')], ['KUBE-*'])
    assert.deepEqual(sorted(xtables.takeRepairs()), { missing: [], changed: ['KUBE-A', 'PREROUTING'] })
  })

  law('the comparison finds a change of the same size', async ({ flavour, xtables, other }) => {
    await written(xtables, ops)
    await other.append('KUBE-B', { ...accept, destinationPorts: [23, 23] })
    await other.deleteRule('KUBE-B', 0)
    assert.equal(await xtables.check(), flavour === 'legacy')
    assert.deepEqual(await xtables.compare(), { missing: [], changed: ['KUBE-B'] })
    assert.equal(await written(xtables, []), true)
  })
}

function refusalLaws(law: Law): void {
  law(
    'ENOENT names a chain that is not there; nothing is written, and what was wanted stays so',
    async (lab) => {
      const { xtables } = lab
      await written(xtables, [set('KUBE-A', mark)])
      const call = xtables.apply([set('KUBE-A', accept), set('KUBE-B', jump('KUBE-NONE'))])
      await refused(call, 'ENOENT', 'KUBE-B', 'KUBE-NONE', lab.family, 'nat')
      assert.deepEqual(await content(lab), { 'KUBE-A': [markText] })
      await refused(xtables.apply([]), 'ENOENT', 'KUBE-NONE')
      assert.equal(await written(xtables, [set('KUBE-NONE')]), true)
      assert.deepEqual(await content(lab), {
        'KUBE-A': [acceptText],
        'KUBE-B': ['-j KUBE-NONE'],
        'KUBE-NONE': [],
      })
    },
  )

  law('ENOENT for a hook that jumps to an absent chain', async (lab) => {
    await refused(lab.xtables.apply([hook('OUTPUT', jump('KUBE-NONE'))]), 'ENOENT', 'OUTPUT', 'KUBE-NONE')
    assert.deepEqual(await content(lab), {})
    assert.equal(await written(lab.xtables, [hook('OUTPUT')]), false)
  })

  law(
    'a chain to be removed that a chain of others jumps to is emptied, and goes with the jump',
    async (lab) => {
      const { xtables, other } = lab
      await written(xtables, [set('KUBE-A', jump('KUBE-B'), mark), set('KUBE-B', mark)])
      await other.addChain('DOCKER')
      await other.append('DOCKER', jump('KUBE-A'))
      await other.append('INPUT', jump('KUBE-A'))
      const outcome = await xtables.apply([remove('KUBE-A'), remove('KUBE-B'), set('KUBE-C', accept)])
      assert.deepEqual(outcome.kept, [{ chain: 'KUBE-A', by: 'DOCKER' }])
      const rest = { 'KUBE-A': [], 'KUBE-C': [acceptText], DOCKER: ['-j KUBE-A'] }
      assert.deepEqual(await content(lab), rest)
      const again = await xtables.apply([])
      assert.deepEqual([again.isWritten, again.kept], [false, outcome.kept])
      assert.deepEqual(await xtables.compare(), nothingDrifted)
      await other.flush('DOCKER')
      assert.deepEqual(await xtables.compare(), { missing: [], changed: ['KUBE-A'] })
      assert.deepEqual((await xtables.apply([])).kept, [])
      assert.deepEqual(await content(lab), { DOCKER: [], 'KUBE-C': [acceptText] })
    },
  )

  law('a rule that the kernel refuses is found, and the rest of the table can be applied', async (lab) => {
    const { xtables } = lab
    await written(xtables, [set('KUBE-A', mark)])
    // The name of a list is a file name.
    const bad: XtRule = { recent: { list: '..', action: 'set' }, target: { kind: 'return' } }
    const others = Array.from({ length: 100 }, (_, i) => set(`KUBE-${i}`, accept, jump('KUBE-A')))
    const ops = [set('KUBE-BAD', accept, bad, leave, bad), hook('OUTPUT', jump('KUBE-BAD')), ...others]
    await refused(xtables.apply(ops), 'EINVAL')
    const found = await xtables.refusals()
    assert.deepEqual(
      found.map(({ chain, rule, error }) => `${chain} ${rule} ${error.code}`),
      ['KUBE-BAD 1 EINVAL', 'KUBE-BAD 3 EINVAL'],
    )
    assert.ok(found[0]?.error.message.includes(`${lab.family} nat KUBE-BAD`), found[0]?.error.message)
    assert.deepEqual(await content(lab), { 'KUBE-A': [markText] })
    assert.equal(await written(xtables, [set('KUBE-BAD', accept, leave)]), true)
    assert.deepEqual(await xtables.refusals(), [])
    assert.deepEqual((await content(lab))['KUBE-BAD'], [acceptText, leaveText])
  })
}
