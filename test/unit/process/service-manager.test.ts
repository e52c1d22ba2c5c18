import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ServiceManager } from '../../../src/process/index.js'
import { openLog } from '../../../src/log.js'

describe('notifications to the service manager', () => {
  const socket = { NOTIFY_SOCKET: '/run/manager' }
  const cases: readonly {
    readonly name: string
    readonly environment: Readonly<Record<string, string>>
    readonly periods: readonly number[]
    readonly told: readonly string[]
  }[] = [
    { name: 'none without a service manager', environment: {}, periods: [], told: [] },
    { name: 'none with a blank NOTIFY_SOCKET', environment: { NOTIFY_SOCKET: '' }, periods: [], told: [] },
    {
      name: 'the start and the end',
      environment: socket,
      periods: [],
      told: ['/run/manager READY=1', '/run/manager STOPPING=1'],
    },
    {
      name: 'the watchdog twice per period',
      environment: { ...socket, WATCHDOG_USEC: '30000000', WATCHDOG_PID: '7' },
      periods: [15_000],
      told: ['/run/manager WATCHDOG=1', '/run/manager READY=1', '/run/manager STOPPING=1'],
    },
    {
      name: 'no watchdog of another process',
      environment: { ...socket, WATCHDOG_USEC: '30000000', WATCHDOG_PID: '8' },
      periods: [],
      told: ['/run/manager READY=1', '/run/manager STOPPING=1'],
    },
    {
      name: 'no watchdog with a period that is no number',
      environment: { ...socket, WATCHDOG_USEC: 'soon' },
      periods: [],
      told: ['/run/manager READY=1', '/run/manager STOPPING=1'],
    },
  ]
  for (const { name, environment, periods, told } of cases) {
    it(name, () => {
      const seen = { periods: new Array<number>(), told: new Array<string>() }
      const manager = new ServiceManager({
        environment,
        pid: 7,
        notify: (to, state) => void seen.told.push(`${to} ${state}`),
        every: (periodMs, run) => {
          seen.periods.push(periodMs)
          run()
        },
        log: openLog({ format: 'json', verbosity: 0, destination: { write: assert.fail }, now: () => 0 }),
      })
      manager.ready()
      manager.stopping()
      assert.deepEqual(seen, { periods, told })
    })
  }
})
