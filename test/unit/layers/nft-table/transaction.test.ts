// Issue 36, point 9: a transaction of the table is one value, from its plan to the kernel's answer.
import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import { KernelError } from '../../../../src/errors.js'
import { NfElements, printTransaction } from '../../../../src/kernel/index.js'
import {
  compileRoute,
  schemaOf,
  TableContent,
  Transaction,
} from '../../../../src/layers/nft-table/testing.js'
import { makeNftSettings } from '../../../support/nft-table.js'
import { backends, plainRoute } from '../../../support/routes.js'

const web = plainRoute({ clusterBackends: backends(8080, '10.1.0.1', '10.1.0.2') })
const { endpoints } = schemaOf('ipv4').services
const first = endpoints.endpointAt(0)

function contentOf(route = web): TableContent {
  const content = new TableContent('ipv4', { now: () => 0, unixMs: () => 0 })
  content.claim(route.key, compileRoute(route, makeNftSettings()))
  return content
}

/** A transaction to the desired state of all frontends. */
function planned(content: TableContent): Transaction {
  const transaction = new Transaction(content)
  for (const entry of content.frontends.values()) transaction.addFrontend(entry, entry.desired)
  return transaction
}

describe('a transaction of the table', () => {
  it('is printed, and thrown away without an effect', () => {
    const content = contentOf()
    const lines = printTransaction(planned(content).ops)
    assert.match(lines, /services-with-2/u)
    assert.equal(printTransaction(planned(content).ops), lines)
  })

  it('leads to the acknowledged state when the kernel took it: then there is nothing left to plan', () => {
    const content = contentOf()
    const transaction = planned(content)
    transaction.confirm()
    assert.deepEqual(planned(content).ops, [])
    assert.equal(planned(content).size, 0)
  })

  it('holds the elements in the form that the kernel gets', () => {
    const [op] = planned(contentOf()).ops.filter(
      (each) => 'elements' in each && each.elements.set === endpoints.endpointAt(1),
    )
    const key = Uint8Array.of(10, 96, 0, 1, 6, 0, 0, 0, 0, 80, 0, 0)
    const data = Uint8Array.of(10, 1, 0, 2, 0x1f, 0x90, 0, 0)
    const expected = new NfElements(endpoints.endpointAt(1)).add(key, { data })
    assert.ok(op !== undefined && 'elements' in op)
    assert.deepEqual(op.elements.bytes, expected.bytes)
  })

  it('names the object of a refused element', () => {
    const content = contentOf()
    const transaction = planned(content)
    const operation = transaction.ops.findIndex((op) => 'elements' in op && op.elements.set === first)
    const error = new KernelError({
      errno: constants.errno.EINVAL,
      subsystem: 'nftables',
      operation: 'add elements',
    })
    const failures = [{ operation, element: 0, error }]
    const { owners, drift } = transaction.refusalOf({ state: 'refused', failures, handles: new Map() })
    assert.deepEqual([...owners.values()], [error])
    assert.deepEqual(
      [...owners.keys()].flatMap((owner) => content.routesOf(owner)),
      [web.key],
    )
    assert.equal(drift, undefined)
  })
})

describe('packed elements', () => {
  it('must have the length of a key of the set', () => {
    assert.throws(() => new NfElements(first).addPacked('\x0a'), /a key of 1 bytes in service-endpoint-0/u)
  })
})
