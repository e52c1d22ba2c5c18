// Listings of x_tables after transactions. test/kernel/plan.test.ts compares them with what the kernel does.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ListingEditor } from '../../../src/kernel/xtables/listing-editor.js'
import type { XtListing } from '../../../src/kernel/xtables/listing.js'
import type { XtOp, XtRule } from '../../../src/kernel/xtables/xtables.js'

const jump = (chain: string): XtRule => ({ target: { kind: 'jump', chain } })
const own: readonly XtOp[] = [
  { op: 'set-chain', chain: 'KUBE-A', rules: [{ target: { kind: 'accept' } }] },
  { op: 'set-hook', chain: 'OUTPUT', rules: [jump('KUBE-A')] },
]
const place = { family: 'ipv4', table: 'filter' } as const
const hook = (...rules: readonly string[]) => ({ chain: 'OUTPUT', policy: 'ACCEPT', rules }) as const
const chain = (name: string, ...rules: readonly string[]) => ({ chain: name, rules })

/** After a removal of the chain that kube-proxy shares with kubelet. */
function withoutShared(listing: XtListing): XtListing {
  const editor = new ListingEditor(listing, place)
  assert.deepEqual(editor.apply({ ops: [], prune: ['KUBE-MARK-DROP?'] }).kept, [])
  return editor.listing
}

describe('a listing after a transaction', () => {
  it('has new chains behind the others, and the jumps at the head', () => {
    const editor = new ListingEditor([hook('-j MINE'), chain('MINE')], place)
    assert.deepEqual(editor.apply({ ops: own, prune: [] }), { isChanged: true, kept: [] })
    assert.deepEqual(editor.listing, [
      hook('-j KUBE-A', '-j MINE'),
      chain('MINE'),
      chain('KUBE-A', '-j ACCEPT'),
    ])
  })

  it('is the same after the same transaction', () => {
    const editor = new ListingEditor([hook('-j MINE', '-j KUBE-A'), chain('KUBE-A', '-j ACCEPT')], place)
    assert.equal(editor.apply({ ops: own, prune: [] }).isChanged, false)
  })

  it('has the base chain that a table of nf_tables lacked', () => {
    const editor = new ListingEditor([], place)
    editor.apply({ ops: own, prune: [] })
    assert.deepEqual(editor.listing, [chain('KUBE-A', '-j ACCEPT'), hook('-j KUBE-A')])
  })

  it('lacks the jumps that were set before, and those to removed chains', () => {
    const editor = new ListingEditor([hook()], place)
    editor.apply({ ops: own, prune: [] })
    editor.apply({ ops: [{ op: 'set-hook', chain: 'OUTPUT', rules: [] }], prune: [] })
    assert.deepEqual(editor.listing, [hook(), chain('KUBE-A', '-j ACCEPT')])
  })

  it('lacks a removed chain, and the jumps of other programs from the hooks to it', () => {
    const editor = new ListingEditor([hook('-p tcp -j KUBE-A'), chain('KUBE-A', '-j ACCEPT')], place)
    editor.apply({ ops: [{ op: 'remove-chain', chain: 'KUBE-A' }], prune: [] })
    assert.deepEqual(editor.listing, [hook()])
  })

  it('lacks chains of a former owner, except those that it sets', () => {
    const before: XtListing = [hook('-j KUBE-B', '-j KUBE-SVC-1'), chain('KUBE-B'), chain('KUBE-SVC-1')]
    const editor = new ListingEditor([...before, chain('KUBE-A')], place)
    editor.apply({ ops: own, prune: ['KUBE-A', 'KUBE-B', 'KUBE-SVC-*'] })
    assert.deepEqual(editor.listing, [hook('-j KUBE-A'), chain('KUBE-A', '-j ACCEPT')])
  })

  it('keeps, empty, a chain to which a chain of another program jumps, in a rule of any form', () => {
    const mine = chain('MINE', '(a rule of another form: limit, verdict; 00000000) -j KUBE-B')
    const editor = new ListingEditor([hook('-j KUBE-B'), mine, chain('KUBE-B', '-j RETURN')], place)
    const { kept } = editor.apply({ ops: [], prune: ['KUBE-B'] })
    assert.deepEqual(kept, [{ chain: 'KUBE-B', by: 'MINE' }])
    assert.deepEqual(editor.listing, [hook(), mine, chain('KUBE-B')])
  })

  it('lacks a shared chain only if it is empty and no chain jumps to it', () => {
    assert.deepEqual(withoutShared([chain('KUBE-MARK-DROP')]), [])
    for (const listing of [
      [chain('KUBE-MARK-DROP', '-j RETURN')],
      [chain('KUBE-MARK-DROP'), chain('MINE', '-j KUBE-MARK-DROP')],
    ])
      assert.deepEqual(withoutShared(listing), listing)
  })
})
