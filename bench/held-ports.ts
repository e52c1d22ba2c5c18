// Held ports: memory and time of 10,000 of them, and the time of one change. Run it in a network namespace of its own:
//   unshare -n node --expose-gc out/ts/bench/held-ports.js
// It prints JSON. `kernelKiB` is the growth of Slab in /proc/meminfo, which other programs change too.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { openKernel, type PortOp, type PortPlace } from '../src/kernel/index.js'
import { type PortStore } from '../src/kernel/testing.js'
import { Program } from '../test/support/processes.js'

const count = 10_000
const firstPort = 20_000

function place(index: number, protocol: 'tcp' | 'udp'): PortPlace {
  return { family: 'ipv4', protocol, address: undefined, port: firstPort + index }
}

function meminfo(name: string): number {
  const line = readFileSync('/proc/meminfo', 'utf8').match(new RegExp(`^${name}:\\s+(\\d+)`, 'm'))
  return Number(line?.[1])
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const startMs = performance.now()
  await work()
  return Number((performance.now() - startMs).toFixed(2))
}

/** Median of 21 runs. */
async function median(work: () => Promise<unknown>): Promise<number> {
  const times: number[] = []
  for (let run = 0; run < 21; run++) times.push(await timed(work))
  return times.toSorted((a, b) => a - b)[10] ?? NaN
}

/** Memory of this process in KiB, after a garbage collection. */
function ownKiB(): number {
  globalThis.gc?.()
  return Math.round(process.memoryUsage.rss() / 1024)
}

async function measure(protocol: 'tcp' | 'udp', portStore: PortStore): Promise<object> {
  const { ports } = openKernel({ portStore })
  await ports.list()
  await ports.find('ipv4', [{ protocol, port: firstPort }])
  const before = { own: ownKiB(), slab: meminfo('Slab') }
  const places = Array.from({ length: count }, (_, index) => place(index, protocol))
  const holds: readonly PortOp[] = places.map((one) => ({ op: 'hold', place: one }))
  const holdAllMs = await timed(() => ports.apply(holds))
  const after = { own: ownKiB(), slab: meminfo('Slab') }
  const last = place(count - 1, protocol)
  const changeMs = await median(async () => {
    await ports.apply([{ op: 'release', place: last }])
    await ports.apply([{ op: 'hold', place: last }])
  })
  const asked = { protocol, port: firstPort + 5 } as const
  const findOneMs = await median(() => ports.find('ipv4', [asked]))
  const all = places.map(({ port }) => ({ protocol, port }))
  const findAllMs = await timed(() => ports.find('ipv4', all))
  const { failures } = await ports.apply([])
  const held = (await ports.list()).length
  await ports.close()
  const own = after.own - before.own
  return {
    protocol,
    store: portStore.socket !== undefined,
    held,
    failures: failures.length,
    holdAllMs,
    changeMs,
    findOneMs,
    findAllMs,
    ownKiB: own,
    kernelKiB: after.slab - before.slab,
  }
}

const none: PortStore = { socket: undefined, inherited: [] }
const folder = mkdtempSync(join(tmpdir(), 'viaduct-bench-'))
const socket = join(folder, 'notify')
const manager = new Program(['python3', 'test/support/service-manager.py', socket, 'sleep', '600'])
await manager.line((line) => line.startsWith('started'))
for (const [protocol, store] of [
  ['tcp', none],
  ['udp', none],
  ['tcp', { socket, inherited: [] }],
] as const)
  process.stdout.write(`${JSON.stringify(await measure(protocol, store))}\n`)
await manager.kill()
rmSync(folder, { recursive: true })
