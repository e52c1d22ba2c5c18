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

const clusterIP = '10.96.0.1'
const serverPort = 8080
const mostEndpoints = 250

function endpointsOf(count: number): readonly string[] {
  return Array.from({ length: count }, (_, index) => `192.0.2.${index + 1}`)
}

function upTo(most: number): readonly number[] {
  return Array.from({ length: most }, (_, index) => index + 1)
}

/** 2000 numbers up to this one. */
function mixed(most: number): readonly number[] {
  return Array.from({ length: 2000 }, (_, round) => 1 + ((round * 7) % most))
}

async function prepareNamespace(): Promise<void> {
  await mustRun(['ip', 'route', 'replace', 'local', '192.0.2.0/24', 'dev', 'lo'])
  await mustRun(['ip', 'route', 'replace', `${clusterIP}/32`, 'dev', 'lo', 'src', '192.0.2.1'])
}

describe('a Service whose number of endpoints changes with each transaction', { timeout: 120_000 }, () => {
  const cases: readonly {
    readonly title: string
    /** Numbers that are in use before. */
    readonly known: readonly number[]
    readonly numbers: readonly number[]
  }[] = [
    { title: 'few numbers are in use', known: upTo(8), numbers: mixed(8) },
    { title: 'the first endpoint leaves', known: [3, 2], numbers: mixed(2).map((number) => number + 1) },
    // More than one chain compares: `services-bucket-B`.
    { title: 'more numbers are in use than one chain compares', known: upTo(20), numbers: mixed(20) },
    // A map of intervals finds nothing for a moment after the transaction that makes it: 156 of 140,000 packets were refused.
    { title: 'numbers above 64 come into use', known: [64], numbers: upTo(mostEndpoints).slice(64) },
  ]
  for (const { title, known, numbers } of cases) {
    it(`serves every connection: ${title}`, async (context) => {
      await prepareNamespace()
      const { nftables } = openRealKernel()
      const lab = new NftLab(nftables, { settings: makeNftSettings() })
      const write = async (count: number): Promise<void> => {
        // Of an odd number, the first endpoint is none.
        const endpoints = endpointsOf(count + (count % 2)).slice(count % 2)
        const clusterBackends = backends(serverPort, ...endpoints)
        lab.claim(plainRoute({ clusterIP: ip(clusterIP), clusterBackends }))
        assert.equal(await lab.write(), true)
      }
      for (const count of known) await write(count)
      const script = join(treeRoot, 'test/support/connector.py')
      const client = new Program(['python3', script, clusterIP, '80', String(serverPort)])
      await client.line((line) => line === 'ready')
      for (const count of numbers) await write(count)
      client.end()
      const { stdout } = await client.ended
      const { tried, failures }: { tried: number; failures: readonly string[] } = JSON.parse(
        stdout.split('\n').at(-1) ?? '',
      )
      context.diagnostic(`${numbers.length} transactions, ${tried} connections`)
      assert.deepEqual(failures, [])
      assert.ok(tried > 1)
      await nftables.close()
    })
  }
})
