import assert from 'node:assert/strict'
import { Socket } from 'node:net'
import { describe, it } from 'node:test'
import { Turns } from '../../../src/server/index.js'
import { PacedSocket } from '../../../src/server/paced-socket.js'
import { ManualClock } from '../../support/manual-clock.js'

describe('the source of a connection', () => {
  const cases: readonly (readonly [string | undefined, string])[] = [
    ['192.0.2.1', '192.0.2.1'],
    ['::ffff:192.0.2.1', '192.0.2.1'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:db8:1:2::7', '2001:db8:1:2::/64'],
    ['2001:db8:1:3::7', '2001:db8:1:3::/64'],
    ['fe80::1%eth0', 'fe80::/64'],
    [undefined, ''],
  ]
  for (const [address, source] of cases) {
    it(`from ${address ?? 'a Unix socket'} is '${source}'`, () => {
      const socket = new Socket()
      Object.defineProperty(socket, 'remoteAddress', { value: address })
      const turns = new Turns({ clock: new ManualClock() })
      assert.equal(new PacedSocket(socket, turns).source, source)
    })
  }
})
