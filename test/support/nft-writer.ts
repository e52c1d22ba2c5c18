// Program: makes the tables of nft-example.ts in the namespace that it runs in.
import { NfElements, type NfOp, packFields } from '../../src/kernel/index.js'
import { schemaOf } from '../../src/layers/nft-table/testing.js'
import { openRealKernel } from '../contract/real-kernel.js'
import { exampleRoutes, exampleSettings, virtualAddress } from './nft-example.js'
import { tableOps } from './nft-table.js'

const { nftables } = openRealKernel()
for (const family of ['ipv4', 'ipv6'] as const) {
  const { serviceCidrs } = schemaOf(family)
  const key = (number: number): Uint8Array =>
    packFields(serviceCidrs.key, [virtualAddress('cluster', family, number)])
  const networks: NfOp = {
    op: 'add-elements',
    elements: new NfElements(serviceCidrs).add(key(0)).add(key(100), { isIntervalEnd: true }),
  }
  const ops = [...tableOps(exampleSettings(family), exampleRoutes(family)), networks]
  const { state, failures } = await nftables.apply(ops)
  if (state !== 'applied') throw new Error(`${state}: ${failures.map(({ error }) => error.message).join()}`)
}
await nftables.close()
