import assert from 'node:assert/strict'
import { it } from 'node:test'
import { listedServerAddress } from '../../../src/kernel/index.js'
import { parseConnection } from '../../../src/kernel/ipvs/real-ipvs.js'

/** Lines as ip_vs_conn_seq_show() prints them. */
const lines: readonly (readonly [what: string, line: string, expected: unknown])[] = [
  [
    'the heading',
    'Pro FromIP   FPrt ToIP     TPrt DestIP   DPrt State       Expires PEName PEData',
    undefined,
  ],
  [
    'a connection of IPv4',
    'TCP C0000201 A0F1 0A60000A 0050 0AF40205 1F90 ESTABLISHED     893',
    {
      protocol: 'tcp',
      client: { address: '192.0.2.1', port: 41_201 },
      virtual: { address: '10.96.0.10', port: 80 },
      real: { address: '10.244.2.5', port: 8080 },
      state: 'ESTABLISHED',
      expiresSeconds: 893,
    },
  ],
  [
    'a connection of IPv6',
    'UDP fd00:0244:0001:0000:0000:0000:0000:0009 A0F1 fd00:0096:0000:0000:0000:0000:0000:000a 0035 fd00:0244:0002:0000:0000:0000:0000:0005 14E9 UDP             299',
    {
      protocol: 'udp',
      client: { address: 'fd00:244:1::9', port: 41_201 },
      virtual: { address: 'fd00:96::a', port: 53 },
      real: { address: 'fd00:244:2::5', port: 5353 },
      state: 'UDP',
      expiresSeconds: 299,
    },
  ],
  ['a record of persistence', 'TCP C0000201 0000 0A60000A 0050 0AF40205 1F90 NONE            893', undefined],
  [
    'a record of persistence by mark',
    'IP  C0000201 0000 00000001 0000 0AF40205 0000 NONE            893',
    undefined,
  ],
]

for (const [what, line, expected] of lines)
  it(`reads ${what} in the connections of IPVS`, () => {
    assert.deepEqual(parseConnection(line), expected)
  })

/** Lines as ip_vs_info_seq_show() prints them. */
const listed: readonly (readonly [what: string, line: string, expected: string | undefined])[] = [
  ['the heading', 'Prot LocalAddress:Port Scheduler Flags', undefined],
  ['a virtual server of IPv4', 'TCP  0A60000A:0050 rr persistent 10800 FFFFFFFF', '10.96.0.10'],
  ['one of IPv6', 'UDP  [fd00:0010:0000:0000:0000:0000:0000:000a]:0035 rr', 'fd00:10::a'],
  ['one with a mark', 'FWM  0A60000A wlc', undefined],
  ['a real server', '  -> 0AF40001:0035      Masq    1      0          0', undefined],
]

for (const [what, line, expected] of listed)
  it(`listedServerAddress reads ${what}`, () => {
    assert.equal(listedServerAddress(line), expected)
  })
