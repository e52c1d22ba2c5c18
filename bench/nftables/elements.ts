// Sends elements to the kernel through the addon, in its own process and network namespace. Prints one JSON line, like
// bench/floor/nft_floor.c, which sends the same elements.
//
//   node elements.js N M     N frontends with M endpoints each, in one transaction; then one element changed, 2,000 times
import { NfElements, openKernel, packFields, type NfSet, type NfTransaction } from '../../src/kernel/index.js'
import { median } from '../stage/figures.js'

const changes = 2000
const [services = 0, endpoints = 0] = process.argv.slice(2).map(Number)
const table = { family: 'ipv4', table: 'floor' } as const
const map: NfSet = {
  ...table,
  set: 'endpoints',
  key: ['ip daddr', 'meta l4proto', 'th dport'],
  data: ['ip daddr', 'th dport'],
}

function address(base: number, number: number): string {
  const value = base + number
  return [24, 16, 8, 0].map((shift) => (value >>> shift) & 255).join('.')
}

/** Key and data of an endpoint. A mode makes them once per change of a route. */
function element(service: number, index: number): readonly [Uint8Array, Uint8Array] {
  return [
    packFields(map.key, [address(0x0a600001, service), 6, 80 + index]),
    packFields(['ip daddr', 'th dport'], [address(0x0af40000, service * 8 + index), 80]),
  ]
}

const packed = Array.from({ length: services * endpoints }, (_, place) =>
  element(Math.floor(place / endpoints), place % endpoints),
)
const kernel = openKernel({ addonPath: process.env['VIADUCT_ADDON'] })

async function apply(transaction: NfTransaction): Promise<void> {
  const { failures } = await kernel.nftables.apply(transaction)
  if (failures[0] !== undefined) throw failures[0].error
}

await apply([
  { op: 'add-table', table },
  { op: 'add-set', set: map },
])
const start = performance.now()
const all = new NfElements(map)
for (const [key, data] of packed) all.add(key, { data })
await apply([{ op: 'add-elements', elements: all }])
const seconds = (performance.now() - start) / 1000

const times: number[] = []
const cpu = process.cpuUsage()
for (let index = 0; index < changes; index += 2) {
  const [key = new Uint8Array(0), data = new Uint8Array(0)] = packed[(index % services) * endpoints] ?? []
  for (const op of ['delete-elements', 'add-elements'] as const) {
    const begin = performance.now()
    await apply([{ op, elements: new NfElements(map).add(key, { data }) }])
    times.push((performance.now() - begin) * 1000)
  }
}
const { system } = process.cpuUsage(cpu)
await kernel.close()
const figures = { seconds, changeMicroseconds: median(times), systemMicroseconds: system / changes }
process.stdout.write(`${JSON.stringify(figures)}\n`)
