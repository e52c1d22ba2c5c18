// Packets that meet the rules of nftables mode in the middle of commits: the number of endpoints of their Service changes all the time.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { requireFreshNamespace } from '../contract/fresh-namespace.js'
import { openRealKernel } from '../contract/real-kernel.js'
import { NftLab } from '../support/nft-lab.js'
import { makeNftSettings } from '../support/nft-table.js'
import { mustRun, Program } from '../support/processes.js'
import { backends, ip, plainRoute } from '../support/routes.js'
import { treeRoot } from '../support/tree.js'

requireFreshNamespace()

const transactions = 2000
const clusterIP = '10.96.0.1'
const serverPort = 8080
const mostEndpoints = 20

function endpointsOf(count: number): readonly string[] {
  return Array.from({ length: count }, (_, index) => `192.0.2.${index + 1}`)
}

async function prepareNamespace(): Promise<void> {
  for (const address of endpointsOf(mostEndpoints))
    await mustRun(['ip', 'address', 'replace', `${address}/32`, 'dev', 'lo'])
  await mustRun(['ip', 'route', 'replace', `${clusterIP}/32`, 'dev', 'lo', 'src', '192.0.2.1'])
}

describe('a Service whose number of endpoints changes with each transaction', { timeout: 120_000 }, () => {
  const cases: readonly { readonly title: string; readonly most: number }[] = [
    { title: 'few numbers are in use', most: 8 },
    // More than one chain compares: `service-bucket-B`.
    { title: 'more numbers are in use than one chain compares', most: mostEndpoints },
  ]
  for (const { title, most } of cases) {
    it(`serves every connection: ${title}`, async (context) => {
      await prepareNamespace()
      const { nftables } = openRealKernel()
      const lab = new NftLab(nftables, { settings: makeNftSettings() })
      const write = async (count: number): Promise<void> => {
        const clusterBackends = backends(serverPort, ...endpointsOf(count))
        lab.claim(plainRoute({ clusterIP: ip(clusterIP), clusterBackends }))
        assert.equal(await lab.write(), true)
      }
      for (let count = 1; count <= most; count++) await write(count)
      const script = join(treeRoot, 'test/support/connector.py')
      const client = new Program(['python3', script, clusterIP, '80', String(serverPort)])
      await client.line((line) => line === 'ready')
      for (let round = 0; round < transactions; round++) await write(1 + ((round * 7) % most))
      client.end()
      const { stdout } = await client.ended
      const { tried, failures }: { tried: number; failures: readonly string[] } = JSON.parse(
        stdout.split('\n').at(-1) ?? '',
      )
      context.diagnostic(`${transactions} transactions, ${tried} connections`)
      assert.deepEqual(failures, [])
      assert.ok(tried > 1)
      await nftables.close()
    })
  }
})
