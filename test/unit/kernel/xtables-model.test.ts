// What the model of x_tables offers beyond the contract, and the errors of a kernel that has none.
import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import { KernelError } from '../../../src/errors.js'
import type { RawXtablesTable } from '../../../src/kernel/addon.js'
import { loadAddon } from '../../../src/kernel/loader.js'
import { ModelXtNamespace, openModelKernel } from '../../model/index.js'
import { RealXtables } from '../../../src/kernel/real-xtables.js'
import { CallCounts } from '../../../src/kernel/request-queue.js'
import type { XtOp, XtRule } from '../../../src/kernel/index.js'

const { EAGAIN, ENOENT, ENOPROTOOPT, EPERM, EPROTONOSUPPORT } = constants.errno

const mark: XtRule = { target: { kind: 'mark', value: 0x4000, mask: 0x4000 } }
const jump: XtRule = { target: { kind: 'jump', chain: 'KUBE-A' } }
const ops: readonly XtOp[] = [
  { op: 'set-hook', chain: 'OUTPUT', rules: [jump] },
  { op: 'set-chain', chain: 'KUBE-A', rules: [mark] },
]

describe('the model of x_tables', () => {
  it('shows the table as iptables-save does, and as rules', async () => {
    const kernel = openModelKernel()
    const xtables = kernel.xtables('ipv6', 'nat')
    xtables.kernel.append('OUTPUT', { protocol: 'udp', target: { kind: 'accept' } })
    await xtables.apply(ops)
    assert.equal(
      xtables.kernel.save(),
      `*nat
:PREROUTING ACCEPT
:INPUT ACCEPT
:OUTPUT ACCEPT
:POSTROUTING ACCEPT
:KUBE-A -
-A OUTPUT -j KUBE-A
-A OUTPUT -p udp -j ACCEPT
-A KUBE-A -j MARK --set-xmark 0x4000/0x4000
COMMIT
`,
    )
    assert.deepEqual(xtables.kernel.chains.get('KUBE-A'), [mark])
    assert.equal(xtables.kernel.writes, 2)
  })

  it('is one per family and table; a namespace outlives the kernel that was opened on it', async () => {
    const xtNamespace = new ModelXtNamespace()
    const first = openModelKernel({ xtNamespace })
    assert.equal(first.xtables('ipv4', 'nat'), first.xtables('ipv4', 'nat'))
    assert.notEqual(first.xtables('ipv4', 'nat'), first.xtables('ipv6', 'nat'))
    await first.xtables('ipv4', 'nat').apply(ops)
    await first.close()
    await assert.rejects(first.xtables('ipv4', 'nat').check(), { code: 'EBADF', object: 'ipv4 nat' })
    const second = openModelKernel({ xtNamespace }).xtables('ipv4', 'nat')
    assert.deepEqual(await second.chains(), [{ chain: 'KUBE-A', rules: 1 }])
    assert.equal((await second.apply(ops)).isWritten, false)
  })

  it('an apply that fails has changed what is wanted', async () => {
    const xtables = openModelKernel().xtables('ipv4', 'nat')
    xtables.plan = { callFault: (call) => (call === 'apply' ? EAGAIN : undefined) }
    await assert.rejects(xtables.apply(ops), { code: 'EAGAIN', subsystem: 'xtables', family: 'ipv4' })
    assert.deepEqual(await xtables.chains(), [])
    xtables.plan = { callFault: (call) => (call === 'check' ? EPERM : undefined) }
    await assert.rejects(xtables.check(), { code: 'EPERM' })
    assert.equal((await xtables.apply([])).isWritten, true)
    assert.deepEqual(await xtables.chains(), [{ chain: 'KUBE-A', rules: 1 }])
  })

  it('logs the operations and counts the applies, until they are taken', async () => {
    const xtables = openModelKernel().xtables('ipv4', 'filter')
    await xtables.apply(ops)
    await xtables.apply([])
    assert.deepEqual([xtables.ops, xtables.applies], [ops, 2])
    assert.deepEqual(xtables.take(), ops)
    assert.deepEqual([xtables.ops, xtables.applies], [[], 0])
  })

  it('refuses what the kernel could not hold, and takes nothing of that batch', async () => {
    const xtables = openModelKernel().xtables('ipv4', 'nat')
    const bad: XtOp = { op: 'set-chain', chain: 'KUBE-B', rules: [{ target: { kind: 'reject' } }] }
    await assert.rejects(xtables.apply([...ops, bad]), { name: 'BugError' })
    assert.equal((await xtables.apply([])).isWritten, false)
  })

  const refusals: readonly (readonly [what: string, code: string, act: (kernel: Table) => void])[] = [
    ['a chain twice', 'EEXIST', (kernel) => kernel.addChain('KUBE-A')],
    [
      'a jump to nowhere',
      'ENOENT',
      (kernel) => kernel.append('OUTPUT', { target: { kind: 'jump', chain: 'X' } }),
    ],
    ['a rule that is not there', 'ENOENT', (kernel) => kernel.deleteRule('KUBE-A', 1)],
    ['a flush of a chain that is not there', 'ENOENT', (kernel) => kernel.flush('X')],
    ['the removal of a chain with rules', 'ENOTEMPTY', (kernel) => kernel.removeChain('KUBE-A')],
    [
      'the removal of a chain that is jumped to',
      'EBUSY',
      (kernel) => {
        kernel.flush('KUBE-A')
        kernel.removeChain('KUBE-A')
      },
    ],
  ]
  for (const [what, code, act] of refusals) {
    it(`another program is refused ${what}: ${code}`, async () => {
      const xtables = openModelKernel().xtables('ipv4', 'nat')
      await xtables.apply(ops)
      assert.throws(() => act(xtables.kernel), { name: 'KernelError', code })
    })
  }
})

type Table = ReturnType<ReturnType<typeof openModelKernel>['xtables']>['kernel']

interface Refusal {
  readonly errno: number
  readonly operation: string
  readonly text: string
}

const refuse = (errno: number, text = ''): Refusal => ({ errno, operation: 'change the table', text })

/** A table of the addon that answers as a kernel would; undefined: the call succeeds. */
function tableThat(refuses: (call: 'apply' | 'check') => Refusal | undefined): RealXtables {
  const addon = loadAddon({ addonPath: process.env['VIADUCT_ADDON'], moduleUrl: import.meta.url })
  const answer = async <T>(call: 'apply' | 'check', value: T): Promise<T> => {
    const refusal = refuses(call)
    if (refusal !== undefined) throw Object.assign(new Error(refusal.operation), refusal)
    return value
  }
  class Table implements RawXtablesTable {
    async load(): Promise<void> {}
    async stage(): Promise<void> {}
    apply(): ReturnType<RawXtablesTable['apply']> {
      return answer('apply', { isWritten: true, entries: 5, bytes: 784, repeats: 0, lockWaitMs: 0, kept: [] })
    }
    async refusals(): ReturnType<RawXtablesTable['refusals']> {
      const text = 'this kernel has no match recent of revision 1'
      const error = { errno: EPROTONOSUPPORT, operation: 'encode a rule', text }
      return [{ chain: 'KUBE-A', rule: 2, error: Object.assign(new Error(error.operation), error) }]
    }
    check(): Promise<boolean> {
      return answer('check', true)
    }
    async compare(): ReturnType<RawXtablesTable['compare']> {
      return { missing: [], changed: [] }
    }
    async chains(): ReturnType<RawXtablesTable['chains']> {
      return { names: ['KUBE-A'], rules: new Uint32Array([3]) }
    }
    async packets(): ReturnType<RawXtablesTable['packets']> {
      return [new Float64Array([7])]
    }
    hurry(): void {}
    async close(): Promise<void> {}
  }
  return new RealXtables(
    () => ({ ...addon, XtablesTable: Table }),
    { family: 'ipv6', table: 'filter' },
    new CallCounts(),
  )
}

describe('a kernel without x_tables', () => {
  for (const [what, errno] of [
    ['none at all', ENOPROTOOPT],
    ['none of that name', ENOENT],
  ] as const) {
    it(`${what}: the error says so`, async () => {
      const xtables = tableThat(() => refuse(errno))
      for (const call of [xtables.apply([]), xtables.check()])
        await assert.rejects(call, (error) => {
          assert.ok(error instanceof KernelError)
          assert.equal(error.errno, errno)
          assert.match(error.message, /ipv6 filter.*no legacy x_tables of that name/)
          return true
        })
    })
  }

  it('ENOENT of a table that is there says what is missing, and nothing of modes', async () => {
    const xtables = tableThat((call) => (call === 'apply' ? refuse(ENOENT, 'chain A jumps to B') : undefined))
    await assert.rejects(xtables.apply([]), {
      message: 'xtables: change the table ipv6 filter: ENOENT (chain A jumps to B)',
    })
  })

  it('a refused rule is told with the chain', async () => {
    const [refusal, ...more] = await tableThat(() => undefined).refusals()
    assert.deepEqual([refusal?.chain, refusal?.rule, more.length], ['KUBE-A', 2, 0])
    assert.ok(refusal?.error instanceof KernelError)
    assert.equal(
      refusal.error.message,
      'xtables: encode a rule ipv6 filter KUBE-A: EPROTONOSUPPORT (this kernel has no match recent of revision 1)',
    )
  })

  it('any other error is passed on as it is', async () => {
    const xtables = tableThat(() => refuse(EPERM, 'CAP_NET_ADMIN is needed'))
    await assert.rejects(xtables.check(), { code: 'EPERM', extack: 'CAP_NET_ADMIN is needed' })
  })
})
