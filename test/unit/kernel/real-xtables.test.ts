// The errors of RealXtables, with a fake addon.
import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import { KernelError } from '../../../src/errors.js'
import type { RawXtablesTable } from '../../../src/kernel/addon.js'
import { loadAddon } from '../../../src/kernel/loader.js'
import { RealXtables } from '../../../src/kernel/xtables/real-xtables.js'
import { CallCounts } from '../../../src/kernel/request-queue.js'

const { ENOENT, ENOPROTOOPT, EPERM, EPROTONOSUPPORT } = constants.errno

interface Refusal {
  readonly errno: number
  readonly operation: string
  readonly text: string
}

const refuse = (errno: number, text = ''): Refusal => ({ errno, operation: 'change the table', text })

/** A table with a fake addon. `refuses` returns the refusal of a call; undefined: the call succeeds. */
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
      const repaired = { missing: [], changed: [] }
      const counts = { entries: 5, bytes: 784, repeats: 0, lockWaitMs: 0 }
      return answer('apply', { isWritten: true, ...counts, kept: [], repaired })
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
    async list(): ReturnType<RawXtablesTable['list']> {
      return { chains: [], bytes: new Uint8Array(0) }
    }
    async listReached(): ReturnType<RawXtablesTable['listReached']> {
      return { chains: [], bytes: new Uint8Array(0) }
    }
    async barrier(): ReturnType<RawXtablesTable['barrier']> {
      return { rule: 2, isPolicy: true }
    }
    async markUses(): ReturnType<RawXtablesTable['markUses']> {
      return []
    }
    async packets(): ReturnType<RawXtablesTable['packets']> {
      return new Float64Array([1, 7])
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

  it('ENOENT of an existing table names the missing object and no modes', async () => {
    const xtables = tableThat((call) => (call === 'apply' ? refuse(ENOENT, 'chain A jumps to B') : undefined))
    await assert.rejects(xtables.apply([]), {
      message: 'xtables: change the table ipv6 filter: ENOENT (chain A jumps to B)',
    })
  })

  it('the error of a refused rule names the chain', async () => {
    const [refusal, ...more] = await tableThat(() => undefined).refusals()
    assert.deepEqual([refusal?.chain, refusal?.rule, more.length], ['KUBE-A', 2, 0])
    assert.ok(refusal?.error instanceof KernelError)
    assert.equal(
      refusal.error.message,
      'xtables: encode a rule ipv6 filter KUBE-A: EPROTONOSUPPORT (this kernel has no match recent of revision 1)',
    )
  })

  it('any other error stays unchanged', async () => {
    const xtables = tableThat(() => refuse(EPERM, 'CAP_NET_ADMIN is needed'))
    await assert.rejects(xtables.check(), { code: 'EPERM', extack: 'CAP_NET_ADMIN is needed' })
  })
})
