// The calls of RealConntrack, with a fake addon, and its records.
import assert from 'node:assert/strict'
import { EventEmitter, once } from 'node:events'
import { it, describe } from 'node:test'
import type { RawConntrackSocket } from '../../../src/kernel/addon.js'
import {
  RealConntrack,
  encodeAddresses,
  encodeFrontends,
} from '../../../src/kernel/conntrack/real-conntrack.js'
import { loadAddon } from '../../../src/kernel/loader.js'
import { CallCounts } from '../../../src/kernel/request-queue.js'
import { formatEndpoint } from '../../../src/address.js'
import type { ConntrackFrontend } from '../../../src/kernel/index.js'
import { addressLayout, backendLayout, frontendLayout } from '../../../src/kernel/conntrack/layout.js'
import { protocolNumber } from '../../../src/kernel/ipvs/encode.js'
import { RecordTable } from '../../../src/kernel/records.js'
import { backends, ip } from '../../support/routes.js'

it('a list of flows delays no clean-up', { timeout: 10_000 }, async () => {
  const addon = loadAddon({ addonPath: process.env['VIADUCT_ADDON'], moduleUrl: import.meta.url })
  const cleanUps = new EventEmitter()
  const cleaned = once(cleanUps, 'clean-up')
  /** Its lists end after the clean-up. */
  class Socket implements RawConntrackSocket {
    async deleteStale(): ReturnType<RawConntrackSocket['deleteStale']> {
      cleanUps.emit('clean-up')
      return { seen: 0, isFiltered: true, deleted: 3 }
    }
    async listFlows(): ReturnType<RawConntrackSocket['listFlows']> {
      await cleaned
      return { flows: new Uint8Array(), total: 7 }
    }
    async countFlows(): ReturnType<RawConntrackSocket['countFlows']> {
      await cleaned
      return new Uint8Array()
    }
    async close(): Promise<void> {}
  }
  const conntrack = new RealConntrack(() => ({ ...addon, ConntrackSocket: Socket }), new CallCounts())
  const listed = conntrack.listFlows('ipv4', [], [], 1)
  const counted = conntrack.countFlows('ipv4', [], [])
  assert.equal((await conntrack.deleteStale('ipv4', [], [])).deleted, 3)
  assert.equal((await listed).total, 7)
  assert.deepEqual([...(await counted)], [])
  await conntrack.close()
})

class FrontendCursor extends RecordTable {
  constructor(bytes: Uint8Array) {
    super(bytes, frontendLayout)
  }

  /** `17 10.96.0.10:53 set 0`, `17 any:30053 set 0`. */
  get lines(): readonly string[] {
    return Array.from({ length: this.length }, (_, index) => {
      const port = this.u16(index, frontendLayout.port)
      const isNodePort = this.u8(index, frontendLayout.isNodePort) === 1
      const address = this.ip(index, frontendLayout.address, 'ipv4')
      const place = isNodePort && address === '0.0.0.0' ? `any:${port}` : formatEndpoint(address, port)
      const protocol = this.u8(index, frontendLayout.protocol)
      return `${protocol} ${place} set ${this.u32(index, frontendLayout.backendSet)}`
    })
  }
}

class BackendCursor extends RecordTable {
  constructor(bytes: Uint8Array) {
    super(bytes, backendLayout)
  }

  get lines(): readonly string[] {
    return Array.from({ length: this.length }, (_, index) => {
      const address = this.ip(index, backendLayout.address, 'ipv4')
      const place = formatEndpoint(address, this.u16(index, backendLayout.port))
      return `${place} set ${this.u32(index, backendLayout.backendSet)}`
    })
  }
}

class AddressRecords extends RecordTable {
  constructor(bytes: Uint8Array) {
    super(bytes, addressLayout)
  }

  get list(): readonly string[] {
    return Array.from({ length: this.length }, (_, i) => this.ip(i, addressLayout.address, 'ipv4'))
  }
}

describe('encodeFrontends', () => {
  const dns = backends(5353, '10.244.1.5', '10.244.1.6')
  const udp = protocolNumber.udp
  const frontend = (rest: Partial<ConntrackFrontend>): ConntrackFrontend => ({
    protocol: 'udp',
    address: ip('10.96.0.10'),
    port: 53,
    backends: dns,
    ...rest,
  })

  it('writes each array of backends once', () => {
    const encoded = encodeFrontends([
      frontend({}),
      frontend({ address: undefined, port: 30053 }),
      frontend({ address: ip('10.96.0.11'), protocol: 'sctp', backends: [...dns] }),
      frontend({ port: 54, backends: [] }),
    ])
    assert.deepEqual(new FrontendCursor(encoded.frontends).lines, [
      `${udp} 10.96.0.10:53 set 0`,
      `${udp} any:30053 set 0`,
      `${protocolNumber.sctp} 10.96.0.11:53 set 1`,
      `${udp} 10.96.0.10:54 set 2`,
    ])
    assert.deepEqual(new BackendCursor(encoded.backends).lines, [
      '10.244.1.5:5353 set 0',
      '10.244.1.6:5353 set 0',
      '10.244.1.5:5353 set 1',
      '10.244.1.6:5353 set 1',
    ])
  })

  it('writes each address that serves node ports', () => {
    const bytes = encodeAddresses([ip('192.0.2.1'), ip('10.0.0.1')])
    assert.deepEqual(new AddressRecords(bytes).list, ['192.0.2.1', '10.0.0.1'])
  })

  it('writes nothing for no frontends', () => {
    const { frontends, backends: none } = encodeFrontends([])
    assert.equal(frontends.length + none.length, 0)
  })
})
