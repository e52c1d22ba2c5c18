import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { IpvsBatch } from '../../src/kernel/index.js'
import type { ObjectEvent } from '../../src/source/index.js'
import { service, set, slice, synced } from '../support/objects.js'
import { PipelineLab } from '../support/pipeline-lab.js'

/** Services for more than one slice of routing and more than one batch. */
const count = 2500

function withEndpoint(name: string, clusterIP: string, address: string): ObjectEvent[] {
  return [set(service(name, clusterIP)), set(slice(`${name}-a`, name, [address]))]
}

/** Syncs these objects. Resolves with the operations on IPVS, as text. */
async function firstSync(objects: readonly ObjectEvent[]): Promise<readonly string[]> {
  const lab = new PipelineLab()
  const operations: string[] = []
  const { ipvs } = lab.kernel
  const apply = ipvs.apply.bind(ipvs)
  ipvs.apply = async (ops: IpvsBatch) => {
    for (let i = 0; i < ops.length; i++) operations.push(JSON.stringify(ops.at(i)))
    return await apply(ops)
  }
  await lab.deliver(...objects, synced)
  await lab.stop()
  return operations
}

describe('the first sync of a large cluster into an empty kernel', () => {
  const many = Array.from({ length: count }, (_, i) =>
    withEndpoint(`m${i}`, `10.97.${i >> 8}.${i & 255}`, `10.128.${i >> 8}.${i & 255}`),
  ).flat()

  it('programs only the winner of a conflict', async () => {
    const loser = withEndpoint('zzz', '10.96.0.10', '10.129.0.1')
    const winner = withEndpoint('aaa', '10.96.0.10', '10.129.0.2')
    const operations = await firstSync([...loser, ...many, ...winner])
    assert.ok(operations.some((op) => op.includes('10.129.0.2')))
    assert.deepEqual(
      operations.filter((op) => op.includes('10.129.0.1')),
      [],
    )
  })

  it('begins with the Service of the API server', async () => {
    const operations = await firstSync([...many, ...withEndpoint('kubernetes', '10.96.0.1', '192.0.2.7')])
    assert.ok(operations.slice(0, 2).some((op) => op.includes('192.0.2.7')))
  })

  it('programs every Service', async () => {
    const operations = await firstSync(many)
    assert.equal(operations.length, 2 * count)
  })
})
