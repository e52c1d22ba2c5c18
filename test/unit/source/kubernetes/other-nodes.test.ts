// The Nodes of other machines, which the agent reads in ipvs and userspace mode (docs/adr/0028).
import assert from 'node:assert/strict'
import { afterEach, describe, it } from 'node:test'
import { apiNode } from '../../../support/api-documents.js'
import type { FakeApiOptions } from '../../../support/fake-api-server.js'
import { KubernetesLab } from '../../../support/kubernetes-lab.js'

let lab: KubernetesLab

afterEach(async () => await lab.close())

const retryMs = 300_000
const notAllowed =
  "Other Nodes are not read; an external address of a Service that is another Node's address becomes local: the account may not list and watch nodes: bind it to the role system:node-proxier"

async function follow(options: FakeApiOptions = {}): Promise<void> {
  lab = new KubernetesLab(options)
  lab.nodes = 'all'
  await lab.start()
}

/** The requests for Nodes, each with its field selector. */
function requests(): readonly string[] {
  const texts = lab.server.requests.map(
    (request, index) => `${request} ${lab.server.queries[index]?.get('fieldSelector')}`,
  )
  return texts.filter((text) => text.startsWith('Node'))
}

/** Lines about other Nodes, without the reason that the server gives. */
function lines(): readonly string[] {
  return lab.log
    .map((line) => line.replace(/ \(GET .*\)$/u, ''))
    .filter((line) => line.includes('Other Nodes'))
}

function nodeEvents(): readonly string[] {
  return lab.events.splice(0).filter((event) => /Node |synced|listed/u.test(event))
}

describe('KubernetesSource: other Nodes', () => {
  it('are read with one link beside the one of this node, before synced', async () => {
    await follow()
    const events = nodeEvents()
    assert.deepEqual(events.toSorted(), ['+Node /node-a', '+Node /node-b', 'synced'])
    assert.equal(events.at(-1), 'synced')
    assert.deepEqual(requests().toSorted(), [
      'Node stream metadata.name!=node-a',
      'Node stream metadata.name=node-a',
    ])
    lab.server.store.remove('Node', '/node-b')
    assert.deepEqual(await lab.untilEvent('-Node /node-b'), ['-Node /node-b'])
  })

  it('are not read in the modes that do not need them', async () => {
    lab = new KubernetesLab()
    await lab.start()
    assert.deepEqual(requests(), ['Node stream metadata.name=node-a'])
  })

  it('that are forbidden are reported once with the role to bind; this node is followed', async () => {
    await follow({ isOwnNodeOnly: true })
    assert.deepEqual(nodeEvents(), ['+Node /node-a', 'synced'])
    await lab.fire(retryMs)
    await lab.until(() => lab.clock.count(retryMs) === 1)
    assert.deepEqual(lines(), [notAllowed])
    assert.deepEqual(
      requests().filter((text) => text.includes('!=')),
      ['Node stream metadata.name!=node-a', 'Node stream metadata.name!=node-a'],
    )
    lab.server.store.put('Node', apiNode('node-a'))
    assert.deepEqual(await lab.untilEvent('+Node /node-a'), ['+Node /node-a'])
  })

  it('are read when they are allowed', async () => {
    await follow({ isOwnNodeOnly: true })
    lab.events.splice(0)
    lab.server.options = {}
    await lab.fire(retryMs)
    assert.deepEqual(await lab.untilEvent('+Node /node-b'), ['+Node /node-b'])
    await lab.untilLogged(/^Other Nodes are read$/u)
    assert.equal(requests().filter((text) => text.endsWith('=node-a') && !text.includes('!=')).length, 1)
  })

  it('stay known when a right is lost; later only the differences are delivered', async () => {
    await follow()
    lab.events.splice(0)
    lab.server.options = { isOwnNodeOnly: true }
    await lab.until(() => lab.server.openWatches === 4)
    lab.server.endWatches('Node')
    await lab.fire(800, 2)
    await lab.until(() => lab.clock.count(retryMs) === 1)
    assert.deepEqual([lab.events.splice(0), lines()], [[], [notAllowed]])
    lab.server.store.remove('Node', '/node-b')
    lab.server.store.put('Node', apiNode('node-c'))
    lab.server.options = {}
    await lab.fire(retryMs)
    assert.deepEqual(await lab.untilEvent('-Node /node-b'), ['+Node /node-c', '-Node /node-b'])
  })

  it('are not asked for after the end of the source', async () => {
    await follow({ isOwnNodeOnly: true })
    await lab.until(() => lab.clock.count(retryMs) === 1)
    await lab.stop()
    assert.equal(lab.clock.count(retryMs), 0)
  })
})
