// Features of the model of x_tables beyond the contract.
import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import { ModelXtNamespace, openModelKernel } from '../../model/index.js'
import type { XtOp, XtRule } from '../../../src/kernel/index.js'

const { EAGAIN, EPERM } = constants.errno

type Table = ReturnType<ReturnType<typeof openModelKernel>['xtables']>['kernel']

const mark: XtRule = { target: { kind: 'mark', value: 0x4000, mask: 0x4000 } }
const jump: XtRule = { target: { kind: 'jump', chain: 'KUBE-A' } }
const ops: readonly XtOp[] = [
  { op: 'set-hook', chain: 'OUTPUT', rules: [jump] },
  { op: 'set-chain', chain: 'KUBE-A', rules: [mark] },
]

describe('the model of x_tables', () => {
  it('returns the table as text of iptables-save and as rules', async () => {
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

  it('has one object per family and table; a namespace outlives the kernel that was opened on it', async () => {
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

  it('a failed apply changes the desired content', async () => {
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

  it('refuses a batch that the kernel cannot represent, as a whole', async () => {
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
