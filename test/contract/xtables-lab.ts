// Rules, operations and checks that the laws of Xtables use.
import assert from 'node:assert/strict'
import type { IpFamily } from '../../src/address.js'
import { KernelError } from '../../src/errors.js'
import { xtHooks } from '../../src/kernel/index.js'
import type { Xtables, XtFlavour, XtHook, XtOp, XtRule, XtTableName } from '../../src/kernel/index.js'
import type { XtChainSummary } from '../../src/kernel/testing.js'
import type { OtherProgram } from './xtables-subjects.js'

export const jump = (chain: string, rule: Omit<XtRule, 'target'> = {}): XtRule => ({
  ...rule,
  target: { kind: 'jump', chain },
})
export const accept: XtRule = { protocol: 'tcp', destinationPorts: [22, 22], target: { kind: 'accept' } }
export const acceptText = '-p tcp -m tcp --dport 22 -j ACCEPT'
export const leave: XtRule = { protocol: 'udp', target: { kind: 'return' } }
export const leaveText = '-p udp -j RETURN'
export const mark: XtRule = { target: { kind: 'mark', value: 0x4000, mask: 0x4000 } }
export const markText = '-j MARK --set-xmark 0x4000/0x4000'
export const masquerade: XtRule = { target: { kind: 'masquerade', isRandomFully: true } }

export const set = (chain: string, ...rules: readonly XtRule[]): XtOp => ({ op: 'set-chain', chain, rules })
export const remove = (chain: string): XtOp => ({ op: 'remove-chain', chain })
export const hook = (chain: XtHook, ...rules: readonly XtRule[]): XtOp => ({ op: 'set-hook', chain, rules })

/** One table, and another program that changes it. */
export interface Lab {
  readonly flavour: XtFlavour
  readonly family: IpFamily
  readonly xtables: Xtables
  readonly other: OtherProgram
  /** A client without the desired content of the first one. */
  readonly restarted: () => Xtables
  readonly of: (table: XtTableName) => Xtables
}

/** Only flavour legacy counts the rules of chains. */
export function counted(flavour: XtFlavour, chain: string, rules: number): XtChainSummary {
  return flavour === 'nft' ? { chain } : { chain, rules }
}

export type Law = (name: string, run: (lab: Lab) => Promise<void>) => void

// Flavour nft reads only its part of a table, so it has no size of the whole.
export const notCounted = [0, 0] as const

export const nothingDrifted = { missing: [], changed: [] }

/** The user chains, and the built-in chains that have rules. */
export async function content({ other }: Lab): Promise<Readonly<Record<string, readonly string[]>>> {
  const builtIn = new Set<string>(xtHooks.nat)
  const chains = Object.entries(await other.list())
  return Object.fromEntries(chains.filter(([chain, rules]) => rules.length > 0 || !builtIn.has(chain)))
}

export async function written(
  xtables: Xtables,
  ops: readonly XtOp[],
  prune?: readonly string[],
): Promise<boolean> {
  const outcome = await xtables.apply(ops, prune === undefined ? {} : { prune })
  assert.equal(await xtables.check(), true)
  assert.deepEqual(await xtables.compare(), nothingDrifted)
  return outcome.isWritten
}

export async function refused(
  call: Promise<unknown>,
  code: string,
  ...words: readonly string[]
): Promise<void> {
  await assert.rejects(call, (error) => {
    assert.ok(error instanceof KernelError, String(error))
    assert.equal(error.code, code)
    for (const word of words) assert.ok(error.message.includes(word), error.message)
    return true
  })
}
