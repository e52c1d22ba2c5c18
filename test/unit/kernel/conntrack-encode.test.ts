import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { formatEndpoint } from '../../../src/address.js'
import type { ConntrackFrontend } from '../../../src/kernel/index.js'
import { encodeAddresses, encodeFrontends } from '../../../src/kernel/conntrack/real-conntrack.js'
import { addressLayout, backendLayout, frontendLayout } from '../../../src/kernel/conntrack/layout.js'
import { protocolNumber } from '../../../src/kernel/ipvs/encode.js'
import { RecordTable } from '../../../src/kernel/records.js'
import { backends, ip } from '../../support/routes.js'

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
