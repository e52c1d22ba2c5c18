// The service manager: notifications to it, and sockets that it has kept.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ServiceManager, inheritedPortSockets } from '../../../src/process/index.js'
import { openLog } from '../../../src/log.js'

describe('the service manager gets', () => {
  const socket = { NOTIFY_SOCKET: '/run/manager' }
  const cases: readonly {
    readonly name: string
    readonly environment: Readonly<Record<string, string>>
    readonly periods: readonly number[]
    readonly sent: readonly string[]
  }[] = [
    { name: 'no notification without NOTIFY_SOCKET', environment: {}, periods: [], sent: [] },
    {
      name: 'no notification for an empty NOTIFY_SOCKET',
      environment: { NOTIFY_SOCKET: '' },
      periods: [],
      sent: [],
    },
    {
      name: 'READY and STOPPING',
      environment: socket,
      periods: [],
      sent: ['/run/manager READY=1', '/run/manager STOPPING=1'],
    },
    {
      name: 'two watchdog notifications per period',
      environment: { ...socket, WATCHDOG_USEC: '30000000', WATCHDOG_PID: '7' },
      periods: [15_000],
      sent: ['/run/manager WATCHDOG=1', '/run/manager READY=1', '/run/manager STOPPING=1'],
    },
    {
      name: 'no watchdog notification if WATCHDOG_PID is another process',
      environment: { ...socket, WATCHDOG_USEC: '30000000', WATCHDOG_PID: '8' },
      periods: [],
      sent: ['/run/manager READY=1', '/run/manager STOPPING=1'],
    },
    {
      name: 'no watchdog notification if the period is 0',
      environment: { ...socket, WATCHDOG_USEC: 'soon' },
      periods: [],
      sent: ['/run/manager READY=1', '/run/manager STOPPING=1'],
    },
  ]
  for (const { name, environment, periods, sent } of cases) {
    it(name, () => {
      const seen = { periods: new Array<number>(), sent: new Array<string>() }
      const manager = new ServiceManager({
        environment,
        pid: 7,
        notify: (to, state) => void seen.sent.push(`${to} ${state}`),
        clock: {
          every: (periodMs, run) => {
            seen.periods.push(periodMs)
            run()
            return () => undefined
          },
        },
        log: openLog({
          format: 'json',
          verbosity: 0,
          destination: { write: assert.fail },
          clock: { unixMs: () => 0 },
        }),
      })
      manager.ready()
      manager.stopping()
      assert.deepEqual(seen, { periods, sent })
    })
  }
})

describe('inheritedPortSockets', () => {
  const names = 'viaduct-ports-7:web.socket:viaduct-ports-12'
  const both = [
    { fd: 3, number: 7 },
    { fd: 5, number: 12 },
  ]
  for (const [name, environment, expected] of [
    ['takes those with its names', { LISTEN_PID: '7', LISTEN_FDS: '3', LISTEN_FDNAMES: names }, both],
    [
      'takes none beyond their number',
      { LISTEN_PID: '7', LISTEN_FDS: '2', LISTEN_FDNAMES: names },
      [both[0]],
    ],
    ['takes none of another process', { LISTEN_PID: '8', LISTEN_FDS: '3', LISTEN_FDNAMES: names }, []],
    ['takes none without a number', { LISTEN_PID: '7', LISTEN_FDNAMES: names }, []],
    ['takes none with a wrong number', { LISTEN_PID: '7', LISTEN_FDS: '-1', LISTEN_FDNAMES: names }, []],
    ['takes none without names', { LISTEN_PID: '7', LISTEN_FDS: '3' }, []],
    [
      'takes none with similar names',
      {
        LISTEN_PID: '7',
        LISTEN_FDS: '4',
        LISTEN_FDNAMES: 'viaduct-ports-:viaduct-ports-0:viaduct-ports-99999999999:viaduct-ports-1x',
      },
      [],
    ],
    ['takes none without a service manager', {}, []],
  ] as const)
    it(name, () => assert.deepEqual(inheritedPortSockets(environment, 7), expected))
})
