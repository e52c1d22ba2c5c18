// addon-life.test.ts runs this program in a worker thread or in a separate process. The first argument is the part to run.
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { parentPort } from 'node:worker_threads'
import { openKernel } from '../../../src/kernel/index.js'
import { loadAddon } from '../../../src/kernel/loader.js'

const addon = loadAddon({ addonPath: process.env['VIADUCT_ADDON'], moduleUrl: import.meta.url })

function report(message: string): void {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a port, not a window
  parentPort?.postMessage(message)
}

/** Starts calls without waiting for them. The environment ends first. */
function startWork(): void {
  void new addon.RouteEvents().next(5000)
  void new addon.NftEvents(0).next(5000)
  void new addon.LookWatch(Uint8Array.of(2), 1000, 'KUBE-', 500).next(new Uint8Array(), 5000)
  void new addon.RouteSocket().dumpLinks()
  void new addon.Relay().configure(new Uint8Array(), new Uint8Array(), 250, new Uint8Array())
}

async function useAndForget(): Promise<void> {
  for (let i = 0; i < 300; i++) {
    const [links, table, cleaning] = await Promise.all([
      new addon.RouteSocket().dumpLinks(),
      new addon.IpvsSocket().dump(2, true).catch(() => undefined),
      // Without frontends it deletes no flow.
      new addon.ConntrackSocket().deleteStale(2, new Uint8Array(0), new Uint8Array(0), new Uint8Array(0)),
      new addon.NftSocket().close(),
      new addon.NftTables().generation().catch(() => undefined),
      new addon.NftEvents(0).close(),
      new addon.IpsetSocket().close(),
      new addon.Relay().configure(new Uint8Array(), new Uint8Array(), 250, new Uint8Array()),
      new addon.KernelLook(Uint8Array.of(2)).take(),
      new addon.LookWatch(Uint8Array.of(2), 1000, 'KUBE-', 500).next(new Uint8Array(), 0),
    ])
    assert.ok(links.length > 0 && (table === undefined || table.virtualServers.length >= 0))
    assert.equal(cleaning.deleted, 0)
  }
}

/** Collects garbage. Finalizers run in later turns of the event loop. */
async function collect(): Promise<void> {
  assert.ok(globalThis.gc !== undefined, 'needs --expose-gc')
  for (let i = 0; i < 5; i++) {
    globalThis.gc()
    await nextTurn()
  }
}

function measure(): readonly [descriptors: number, bytes: number] {
  return [readdirSync('/proc/self/fd').length, process.memoryUsage().rss]
}

function median(figures: readonly number[]): number {
  return figures.toSorted((a, b) => a - b)[Math.floor(figures.length / 2)] ?? Number.NaN
}

/**
 * Prints the median growth over five runs, after two runs that fill the pools of engine and allocator. A leak grows in each run; memory
 * that the allocator keeps does not.
 */
async function measureLeak(): Promise<void> {
  const [descriptors, megabytes]: [number[], number[]] = [[], []]
  for (let run = 0; run < 7; run++) {
    const [descriptorsBefore, bytesBefore] = measure()
    await useAndForget()
    await collect()
    const [descriptorsAfter, bytesAfter] = measure()
    if (run < 2) continue
    descriptors.push(descriptorsAfter - descriptorsBefore)
    megabytes.push(Math.round((bytesAfter - bytesBefore) / 2 ** 20))
  }
  console.log(`${median(descriptors)} ${median(megabytes)}`)
}

switch (process.argv[2]) {
  case 'dump and close': {
    const socket = new addon.RouteSocket()
    const events = new addon.RouteEvents()
    const next = events.next(5000)
    await socket.dumpLinks()
    await Promise.all([socket.close(), events.close(), next])
    report('closed')
    break
  }
  case 'wait and dump':
    startWork()
    report('in flight')
    break
  case 'exit':
    startWork()
    process.exit(7)
    break
  case 'exit watched': {
    const kernel = openKernel({ addonPath: process.env['VIADUCT_ADDON'] })
    void kernel.links.watch().next()
    void kernel.look(['ipv4']).watch('KUBE-').next([])
    // Lets the previous calls start first.
    await nextTurn()
    process.exit(7)
    break
  }
  case 'leak':
    await measureLeak()
    break
  default:
    throw new Error(`no such part: ${process.argv[2]}`)
}
