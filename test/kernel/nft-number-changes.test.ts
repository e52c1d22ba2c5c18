// The shipped agent in nftables mode: clients connect without a pause while the number of endpoints of their Service changes, first
// endpoints leave, and full comparisons remove what is out of use.
import assert from 'node:assert/strict'
import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { it } from 'node:test'
import { apiService, apiSlice } from '../support/api-documents.js'
import { Namespace } from '../support/namespaces.js'
import { treeRoot } from '../support/tree.js'
import { AgentProcess } from '../traffic/agent-process.js'

const clusterIP = '10.96.0.1'
const serverPort = 8080
/** Numbers on both sides of each bucket of 16, of the largest direct map, and of a block. */
const numbers = [
  3, 2, 3, 2, 1, 2, 16, 17, 16, 18, 32, 33, 31, 64, 65, 64, 66, 80, 81, 79, 96, 3, 2, 65, 1, 17,
]
const rounds = 6

/** `first`: the first ones leave from round to round. */
function addressesOf(count: number, first: number): readonly string[] {
  return Array.from({ length: count }, (_, index) => `10.1.0.${1 + first + index}`)
}

it('serves every connection while numbers of endpoints change', { timeout: 120_000 }, async (context) => {
  const node = await Namespace.create('node')
  const folder = await mkdtemp(join(tmpdir(), 'viaduct-numbers-'))
  const manifests = join(folder, 'manifests')
  const publish = async (addresses: readonly string[]): Promise<void> => {
    const items = [
      { apiVersion: 'v1', kind: 'Service', ...apiService('web', clusterIP) },
      { apiVersion: 'discovery.k8s.io/v1', kind: 'EndpointSlice', ...apiSlice('web-1', 'web', addresses) },
    ]
    await writeFile(join(folder, 'next'), JSON.stringify({ apiVersion: 'v1', kind: 'List', items }))
    await rename(join(folder, 'next'), join(manifests, 'all.json'))
  }
  context.after(async () => {
    await node.close()
    await rm(folder, { recursive: true })
  })
  await node.ip(
    'address add 192.0.2.1/32 dev lo',
    'route add local 10.1.0.0/16 dev lo',
    `route add ${clusterIP}/32 dev lo src 192.0.2.1`,
  )
  await mkdir(manifests)
  await publish(addressesOf(4, 0))
  const flags = ['--iptables-sync-period=1s']
  const agent = AgentProcess.start({ node, manifests, mode: 'nftables', flags })
  await agent.synced()
  const script = join(treeRoot, 'test/support/connector.py')
  const client = node.start('python3', script, clusterIP, '80', String(serverPort))
  await client.line((line) => line === 'ready')
  for (let round = 0; round < rounds; round++) {
    for (const [index, count] of numbers.entries()) {
      const from = agent.lineCount
      await publish(addressesOf(count, (round * numbers.length + index) % 100))
      await agent.line(/"IPv4".*"Sync done"/u, from)
    }
  }
  client.end()
  const { stdout } = await client.ended
  const counts: { tried: number; failures: readonly string[] } = JSON.parse(stdout.split('\n').at(-1) ?? '')
  context.diagnostic(`${rounds * numbers.length} changes, ${counts.tried} connections`)
  assert.deepEqual(counts.failures, [])
  assert.equal((await agent.terminate()).code, 0)
})
