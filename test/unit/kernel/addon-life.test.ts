// The life of the addon and its sockets: loaded twice, in a worker, and in an environment that ends during calls.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { EventEmitter, once } from 'node:events'
import { describe, it } from 'node:test'
import { promisify } from 'node:util'
import { Worker } from 'node:worker_threads'
import type { Addon, RawRouteSocket } from '../../../src/kernel/addon.js'
import { loadAddon } from '../../../src/kernel/loader.js'
import { opLayout, realServerLayout, virtualServerLayout } from '../../../src/kernel/ipvs/layout.js'
import { recordBuffer } from '../../../src/kernel/records.js'
import { routeLayout, routeQueryLayout } from '../../../src/kernel/route/layout.js'
import { RealLinks } from '../../../src/kernel/route/real-routes.js'
import { CallCounts, RequestQueue } from '../../../src/kernel/request-queue.js'

const addonPath = process.env['VIADUCT_ADDON']
const inet = 2
const program = new URL('addon-program.js', import.meta.url)

function load(): Addon {
  return loadAddon({ addonPath, moduleUrl: import.meta.url })
}

function methods(constructor: { readonly prototype: object }): readonly string[] {
  return Object.getOwnPropertyNames(constructor.prototype)
    .filter((name) => name !== 'constructor')
    .toSorted()
}

/** Runs addon-program.js in a separate process. */
async function runProgram(
  part: string,
  { flags = [], limitMs = 0 }: { readonly flags?: readonly string[]; readonly limitMs?: number } = {},
): Promise<{ readonly code: number; readonly output: string }> {
  try {
    const { stdout } = await promisify(execFile)(process.execPath, [...flags, program.pathname, part], {
      timeout: limitMs,
      killSignal: 'SIGKILL',
    })
    return { code: 0, output: stdout.trim() }
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && 'stderr' in error)) throw error
    return { code: Number(error.code), output: String(error.stderr) }
  }
}

/** Calls with arguments that the types forbid. */
function callWith(socket: RawRouteSocket, method: keyof RawRouteSocket, args: readonly unknown[]): unknown {
  return Reflect.apply(Reflect.get(socket, method), socket, args)
}

/** Runs addon-program.js in a worker thread until it reports that its calls are in flight. */
async function startWorker(part: string): Promise<Worker> {
  const worker = new Worker(program, { argv: [part] })
  const [message] = await once(worker, 'message')
  assert.equal(message, 'in flight')
  return worker
}

describe('the addon', () => {
  it('exports the names that addon.ts declares', () => {
    const addon = load()
    assert.deepEqual(Object.keys(addon).toSorted(), [
      'ConntrackSocket',
      'IpsetSocket',
      'IpvsSocket',
      'KernelLook',
      'ListenerSocket',
      'LookWatch',
      'NetworkNamespace',
      'NftEvents',
      'NftSocket',
      'NftTables',
      'PortHolder',
      'Relay',
      'RouteEvents',
      'RouteSocket',
      'XtablesTable',
      'clockStatus',
      'layout',
      'nftGrammar',
      'notifyServiceManager',
      'peerCredentials',
    ])
    assert.deepEqual(methods(addon.IpvsSocket), [
      'apply',
      'close',
      'dump',
      'info',
      'load',
      'read',
      'setTimeouts',
      'timeouts',
    ])
    assert.deepEqual(methods(addon.RouteSocket), [
      'addDummy',
      'applyAddresses',
      'applyRoutes',
      'close',
      'dumpAddresses',
      'dumpLinks',
      'dumpLocalRoutes',
      'dumpNextHops',
      'dumpRules',
      'lookUp',
      'removeLink',
      'setUp',
    ])
    assert.deepEqual(methods(addon.RouteEvents), ['close', 'next'])
    assert.deepEqual(methods(addon.ConntrackSocket), ['close', 'countFlows', 'deleteStale', 'listFlows'])
    assert.deepEqual(methods(addon.IpsetSocket), ['apply', 'close', 'findIndex', 'listEntries', 'listSets'])
    assert.deepEqual(methods(addon.Relay), ['apply', 'close', 'conditions', 'configure', 'counters', 'flows'])
    assert.deepEqual(methods(addon.KernelLook), ['close', 'take'])
    assert.deepEqual(methods(addon.LookWatch), ['close', 'next'])
    assert.deepEqual(methods(addon.NftTables), [
      'apply',
      'close',
      'findElements',
      'generation',
      'list',
      'listElements',
      'portId',
    ])
    assert.deepEqual(methods(addon.NftEvents), ['close', 'next'])
    assert.deepEqual(methods(addon.NftSocket), ['close', 'deleteTable', 'listChains', 'loadXtables'])
    assert.deepEqual(methods(addon.PortHolder), ['apply', 'close', 'list'])
    assert.deepEqual(methods(addon.ListenerSocket), ['close', 'find'])
    assert.deepEqual(methods(addon.XtablesTable), [
      'apply',
      'barrier',
      'chains',
      'check',
      'close',
      'compare',
      'hurry',
      'list',
      'listReached',
      'load',
      'markUses',
      'packets',
      'refusals',
      'stage',
    ])
  })

  it('loads twice, and both copies work', async () => {
    const sockets = [load(), load()].map((addon) => new addon.RouteSocket())
    const dumps = await Promise.all(sockets.map((socket) => socket.dumpLinks()))
    assert.deepEqual(dumps[0], dumps[1])
    await Promise.all(sockets.map((socket) => socket.close()))
  })

  it('works in a worker thread, which ends by itself when its sockets are closed', async () => {
    const worker = new Worker(program, { argv: ['dump and close'] })
    const [[message], [code]] = await Promise.all([once(worker, 'message'), once(worker, 'exit')])
    assert.deepEqual([message, code], ['closed', 0])
  })

  it('survives the end of a worker while a wait for events and a batch are in flight', async () => {
    const worker = await startWorker('wait and dump')
    assert.equal(await worker.terminate(), 1)
    const socket = new (load().RouteSocket)()
    assert.ok((await socket.dumpLinks()).length > 0)
    await socket.close()
  })

  it('lets the process exit while a wait for events and a batch are in flight', async () => {
    assert.deepEqual(await runProgram('exit'), { code: 7, output: '' })
  })

  it('does not delay the exit of a process that watches the kernel', async () => {
    // Without an interruption the wait of the watch lasts 10 s.
    const { code } = await runProgram('exit watched', { limitMs: 7000 })
    assert.equal(code, 7)
  })

  it('releases memory and descriptors of sockets that were not closed', async () => {
    const { code, output } = await runProgram('leak', { flags: ['--expose-gc'] })
    assert.equal(code, 0, output)
    const [descriptors = Number.NaN, megabytes = Number.NaN] = output.split(' ').map(Number)
    // A leak of 300 sockets and 300 dumps of 64 KiB and more would be 300 descriptors and 20 MB.
    assert.ok(descriptors <= 2, `${descriptors} descriptors more than before`)
    assert.ok(megabytes < 10, `${megabytes} MB more than before`)
  })
})

describe('a socket of the addon', () => {
  it('takes one call at a time', async () => {
    const socket = new (load().RouteSocket)()
    const dump = socket.dumpLinks()
    assert.throws(() => socket.dumpLinks(), { errno: 16 })
    await dump
    await socket.dumpLinks()
    await socket.close()
  })

  it('rejects when the answer cannot be converted to a value', async () => {
    const socket = new (load().RouteSocket)()
    // The answer is a plain object. A script can make its creation fail only through the prototype.
    // oxlint-disable-next-line eslint/no-extend-native
    Object.defineProperty(Object.prototype, 'applied', {
      configurable: true,
      set() {
        throw new Error('no such field')
      },
    })
    try {
      await assert.rejects(socket.applyRoutes(new Uint8Array(0)), { message: 'no such field' })
    } finally {
      Reflect.deleteProperty(Object.prototype, 'applied')
    }
    assert.equal((await socket.applyRoutes(new Uint8Array(0))).applied, 0)
    await socket.close()
  })

  it('close waits for the call in flight, also when repeated, and closes the socket', async () => {
    const socket = new (load().RouteSocket)()
    const order: string[] = []
    const dump = socket.dumpLinks().then(() => order.push('dump'))
    await Promise.all([socket.close().then(() => order.push('close')), socket.close()])
    await dump
    assert.deepEqual(order, ['dump', 'close'])
    await socket.close()
    assert.throws(() => socket.dumpLinks(), { errno: 9 })
  })

  it('close ends a wait for events with no records', async () => {
    const events = new (load().RouteEvents)()
    const next = events.next(3_600_000)
    await events.close()
    assert.equal((await next).length, 0)
  })

  it('does not run on the memory of another class', () => {
    const { IpvsSocket, RouteSocket } = load()
    const routes = new RouteSocket()
    assert.throws(() => Reflect.apply(IpvsSocket.prototype.info, routes, []), TypeError)
    assert.throws(() => Reflect.apply(RouteSocket.prototype.dumpLinks, {}, []), TypeError)
  })
})

describe('RealLinks', () => {
  it('closes a watch once, by itself or with the rest', async () => {
    const addon = load()
    const closed: number[] = []
    class CountedEvents {
      readonly #number = closed.push(0) - 1
      next = async (): Promise<Uint8Array> => new Uint8Array(0)
      close = async (): Promise<void> => {
        closed[this.#number] = (closed[this.#number] ?? 0) + 1
      }
    }
    const links = new RealLinks(() => ({ ...addon, RouteEvents: CountedEvents }), new CallCounts())
    await links.watch().close()
    links.watch()
    await links.close()
    assert.deepEqual(closed, [1, 1])
  })

  // Before, each wait ended after 5 s.
  it('waits for events without waking the process', async () => {
    const addon = load()
    const waits: number[] = []
    const socket = new EventEmitter()
    class RecordedEvents {
      next = async (...[longestMs = Number.NaN]: readonly number[]): Promise<Uint8Array> => {
        waits.push(longestMs)
        const closed = once(socket, 'close')
        socket.emit('wait')
        await closed
        return new Uint8Array(0)
      }
      close = async (): Promise<void> => void socket.emit('close')
    }
    const links = new RealLinks(() => ({ ...addon, RouteEvents: RecordedEvents }), new CallCounts())
    const waiting = once(socket, 'wait')
    const next = links.watch().next()
    await waiting
    await links.close()
    assert.equal(await next, undefined)
    assert.deepEqual(waits, [3_600_000])
  })
})

describe('arguments of the addon', () => {
  const detached = new Uint8Array(routeLayout.size)
  structuredClone(detached.buffer, { transfer: [detached.buffer] })
  const resizable: ArrayBuffer = Reflect.construct(ArrayBuffer, [routeLayout.size, { maxByteLength: 4096 }])
  const disguised = new Uint8Array(new SharedArrayBuffer(routeLayout.size))
  Object.defineProperty(disguised, 'buffer', { value: new ArrayBuffer(routeLayout.size) })
  const wrongRecords: readonly (readonly [what: string, value: unknown, message: RegExp])[] = [
    ['nothing', undefined, /^routes: a Uint8Array/],
    ['a plain array', [1, 2, 3], /^routes: a Uint8Array/],
    ['another typed array', new Uint16Array(28), /^routes: a Uint8Array/],
    ['a shared buffer', new Uint8Array(new SharedArrayBuffer(routeLayout.size)), /^routes: .*shared/],
    ['a shared buffer that names another', disguised, /^routes: .*shared/],
    ['a detached buffer', detached, /^routes: .*detached/],
    ['a resizable buffer', new Uint8Array(resizable), /^routes: .*resizable/],
    ['a broken record', new Uint8Array(routeLayout.size + 1), /^routes: must hold whole records of 56 bytes/],
    [
      'an unaligned record',
      new Uint8Array(new ArrayBuffer(60), 1, routeLayout.size),
      /^routes: must be aligned/,
    ],
    ['an unknown operation', new Uint8Array(routeLayout.size), /^routes: record 0/],
  ]
  for (const [what, value, message] of wrongRecords) {
    it(`records: ${what} is refused`, async () => {
      const socket = new (load().RouteSocket)()
      assert.throws(() => callWith(socket, 'applyRoutes', [value]), { message })
      await socket.close()
    })
  }

  it('records: questions of another size or family are refused', async () => {
    const socket = new (load().RouteSocket)()
    assert.throws(() => callWith(socket, 'lookUp', [new Uint8Array(1)]), { message: /^queries: / })
    const unknown = new Uint8Array(routeQueryLayout.size)
    assert.throws(() => callWith(socket, 'lookUp', [unknown]), { message: /^family: AF_INET/ })
    await socket.close()
  })

  const wrongCalls: readonly (readonly [
    method: keyof RawRouteSocket,
    args: readonly unknown[],
    message: RegExp,
  ])[] = [
    ['dumpLocalRoutes', ['ipv4'], /^family: a number/],
    ['dumpLocalRoutes', [3], /^family: AF_INET/],
    ['dumpNextHops', [3], /^family: AF_INET/],
    ['dumpAddresses', [inet, -1], /^interfaceIndex: a whole number from 0 to 2147483647/],
    ['dumpAddresses', [inet, 2 ** 31], /^interfaceIndex: a whole number/],
    ['dumpAddresses', [inet, 1.5], /^interfaceIndex: a whole number/],
    ['dumpAddresses', [inet, Number.NaN], /^interfaceIndex: a whole number/],
    ['addDummy', [''], /^name: 1 to 15 bytes/],
    ['addDummy', ['sixteen-letters!'], /^name: 1 to 15 bytes/],
    ['addDummy', ['a\0b'], /^name: .*without NUL/],
    ['addDummy', [7], /^name: a string/],
  ]
  for (const [method, args, message] of wrongCalls) {
    it(`${method}(${JSON.stringify(args)}) is refused`, async () => {
      const socket = new (load().RouteSocket)()
      assert.throws(() => callWith(socket, method, args), { message })
      await socket.close()
    })
  }

  it('indices of an IPVS batch outside its tables are refused', async () => {
    const socket = new (load().IpvsSocket)()
    const servers = new Uint8Array(virtualServerLayout.size)
    const reals = new Uint8Array(realServerLayout.size)
    for (const [number, server, real] of [
      [1, 1, 0],
      [4, 0, 1],
      [4, 1, 0],
      [0, 0, 0],
      [8, 0, 0],
    ] as const) {
      const ops = recordBuffer(opLayout.size)
      ops.view.setUint32(opLayout.virtualServer, server, true)
      ops.view.setUint32(opLayout.realServer, real, true)
      ops.view.setUint8(opLayout.op, number)
      assert.throws(() => socket.apply(ops.bytes, servers, reals), { message: /^ops: record 0/ })
    }
    const endless = new Uint8Array(virtualServerLayout.size).fill(0x61)
    assert.throws(() => socket.apply(new Uint8Array(0), endless, reals), {
      message: /^virtualServers: .*not terminated/,
    })
    await socket.close()
  })
})

describe('RequestQueue', () => {
  it('runs calls in order, opens once, and continues after a failure', async () => {
    const log: string[] = []
    const queue = new RequestQueue(() => {
      log.push('open')
      return { close: async () => void log.push('close') }
    }, 'route')
    const first = queue.run(async () => {
      await Promise.resolve()
      log.push('first')
    })
    const second = queue.run(() =>
      Promise.reject(Object.assign(new Error('no'), { errno: 1, operation: 'x', text: 'y' })),
    )
    const about = { family: 'ipv6', object: 'interface 7' } as const
    const refused = queue.run(
      () => Promise.reject(Object.assign(new Error('no'), { errno: 19, operation: 'x', text: '' })),
      about,
    )
    const third = queue.run(async () => void log.push('third'))
    await assert.rejects(second, { name: 'KernelError', code: 'EPERM', operation: 'x', extack: 'y' })
    await assert.rejects(refused, { code: 'ENODEV', ...about })
    await queue.close()
    await Promise.all([first, third])
    assert.deepEqual(log, ['open', 'first', 'third', 'close'])
    await assert.rejects(
      queue.run(async () => {}),
      { code: 'EBADF' },
    )
    await queue.close()
  })
})
