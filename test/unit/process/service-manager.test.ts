import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ServiceManager } from '../../../src/process/index.js'
import { openLog } from '../../../src/log.js'

describe('the service manager is told', () => {
  const socket = { NOTIFY_SOCKET: '/run/manager' }
  const cases: readonly {
    readonly name: string
    readonly environment: Readonly<Record<string, string>>
    readonly periods: readonly number[]
    readonly told: readonly string[]
  }[] = [
    { name: 'nothing where there is none', environment: {}, periods: [], told: [] },
    { name: 'nothing of an empty name', environment: { NOTIFY_SOCKET: '' }, periods: [], told: [] },
    {
      name: 'what happens',
      environment: socket,
      periods: [],
      told: ['/run/manager READY=1', '/run/manager STOPPING=1'],
    },
    {
      name: 'twice in each period of a watchdog that it lives',
      environment: { ...socket, WATCHDOG_USEC: '30000000', WATCHDOG_PID: '7' },
      periods: [15_000],
      told: ['/run/manager WATCHDOG=1', '/run/manager READY=1', '/run/manager STOPPING=1'],
    },
    {
      name: 'no life of another process',
      environment: { ...socket, WATCHDOG_USEC: '30000000', WATCHDOG_PID: '8' },
      periods: [],
      told: ['/run/manager READY=1', '/run/manager STOPPING=1'],
    },
    {
      name: 'no life where the period is none',
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
      assert.deepEqual(seen, { periods, told })
    })
  }
})
