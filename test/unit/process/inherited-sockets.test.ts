import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { inheritedPortSockets } from '../../../src/process/index.js'

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
