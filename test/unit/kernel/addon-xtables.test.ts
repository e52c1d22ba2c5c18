// The addon's tables refuse invalid input before any call into the kernel. NB: no case may reach the kernel, because its tables would be
// those of the machine.
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { describe, it } from 'node:test'
import type { RawXtablesTable } from '../../../src/kernel/addon.js'
import { loadAddon } from '../../../src/kernel/loader.js'
import { recordBuffer } from '../../../src/kernel/records.js'
import { chainLayout, ruleLayout } from '../../../src/kernel/xtables/layout.js'
import { encodeTexts } from '../../../src/kernel/xtables/encode.js'

const addon = loadAddon({ addonPath: process.env['VIADUCT_ADDON'], moduleUrl: import.meta.url })
const inet = 2
const none = new Uint8Array(0)
const setChain = 1

interface Op {
  readonly op?: number
  readonly firstRule?: number
  readonly ruleCount?: number
}

/** One ChainRecord of the first text. */
function chain({ op = setChain, firstRule = 0, ruleCount = 0 }: Op): Uint8Array {
  const { bytes, view } = recordBuffer(chainLayout.size)
  view.setUint32(chainLayout.firstRule, firstRule, true)
  view.setUint32(chainLayout.ruleCount, ruleCount, true)
  view.setUint8(chainLayout.op, op)
  return bytes
}

async function withTable(use: (table: RawXtablesTable) => unknown): Promise<void> {
  const table = new addon.XtablesTable(inet, 'nat')
  try {
    await use(table)
  } finally {
    await table.close()
  }
}

/** Calls with arguments that the types forbid. */
function applyWith(table: RawXtablesTable, args: readonly unknown[]): unknown {
  return Reflect.apply(Reflect.get(table, 'apply'), table, args)
}

describe('a table of the addon', () => {
  const wrongTables: readonly (readonly [args: readonly unknown[], message: RegExp])[] = [
    [[], /^family: a number/],
    [[3, 'nat'], /^family: AF_INET/],
    [[inet], /^table: a string/],
    [[inet, ''], /^table: 1 to 31 bytes/],
    [[inet, 'n'.repeat(32)], /^table: 1 to 31 bytes/],
  ]
  for (const [args, message] of wrongTables) {
    it(`of ${JSON.stringify(args)} is refused`, () => {
      assert.throws(() => Reflect.construct(addon.XtablesTable, args), { message })
    })
  }

  const wrongCalls: readonly (readonly [what: string, args: readonly unknown[], message: RegExp])[] = [
    [
      'half a chain',
      [new Uint8Array(8), none, none, none, 0],
      /^chains: must hold whole records of 16 bytes/,
    ],
    [
      'half a rule',
      [none, new Uint8Array(60), none, none, 0],
      /^rules: must hold whole records of 120 bytes/,
    ],
    ['no texts', [none, none, undefined, none, 0], /^texts: a Uint8Array/],
    ['strings to prune', [none, none, none, ['KUBE-*'], 0], /^prune: a Uint8Array/],
    ['no deadline', [none, none, none, none], /^lockTimeoutMs: a number/],
    ['an endless deadline', [none, none, none, none, Infinity], /^lockTimeoutMs: a whole number/],
    ['rules that are not there', [chain({ ruleCount: 1 }), none, none, none, 0], /^chains: record 0 points/],
    [
      'rules beyond the end',
      [chain({ firstRule: 2 ** 32 - 1, ruleCount: 2 }), new Uint8Array(ruleLayout.size), none, none, 0],
      /^chains: record 0 points/,
    ],
  ]
  for (const [what, args, message] of wrongCalls) {
    it(`apply with ${what} is refused`, () =>
      withTable((table) => {
        assert.throws(() => applyWith(table, args), { message })
      }))
  }

  const wrongOps: readonly (readonly [what: string, op: Op, texts: readonly string[], text: string])[] = [
    ['without its text', {}, [], 'text 0 is missing'],
    ['unknown', { op: 9 }, ['KUBE-A'], 'unknown operation 9'],
    ['on a hook', {}, ['OUTPUT'], '"OUTPUT" is a built-in chain of the kernel'],
  ]
  for (const [what, op, texts, text] of wrongOps) {
    it(`an operation ${what} rejects with a message`, () =>
      withTable((table) =>
        assert.rejects(table.apply(chain(op), none, encodeTexts(texts), none, 0), { errno: 22, text }),
      ))
  }

  it('accepts one call at a time, and none after close', async () => {
    const table = new addon.XtablesTable(inet, 'nat')
    const refused = table.apply(chain({ op: 9 }), none, encodeTexts(['A']), none, 0)
    assert.throws(() => table.check(), { errno: 16 })
    await assert.rejects(refused, { errno: 22 })
    await Promise.all([table.close(), table.close()])
    assert.throws(() => table.check(), { errno: 9 })
  })

  it('does not run on the memory of another class', async () => {
    const routes = new addon.RouteSocket()
    assert.throws(() => Reflect.apply(addon.XtablesTable.prototype.check, routes, []), TypeError)
    await routes.close()
  })

  it('has one descriptor until it is closed', async () => {
    const before = readdirSync('/proc/self/fd').length
    const tables = Array.from({ length: 50 }, () => new addon.XtablesTable(inet, 'nat'))
    assert.equal(readdirSync('/proc/self/fd').length, before + 50)
    await Promise.all(tables.map((table) => table.close()))
    assert.equal(readdirSync('/proc/self/fd').length, before)
  })
})
