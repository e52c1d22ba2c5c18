import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import * as fc from 'fast-check'
import { resolveConfig, type ConfigInput } from '../../../src/config/index.js'
import { formatDuration, parseDuration } from '../../../src/config/testing.js'
import { ConfigError } from '../../../src/errors.js'
import { commit, version } from '../../../src/version.js'

describe('parseDuration', () => {
  const good: [string, number][] = [
    ['0', 0],
    ['+0', 0],
    ['500ms', 500],
    ['1m30s', 90_000],
    ['1h', 3_600_000],
    ['1.5s', 1500],
    ['.5s', 500],
    ['2.s', 2000],
    ['-5s', -5000],
    ['1500us', 1.5],
    ['1500µs', 1.5],
    ['1000000ns', 1],
  ]
  for (const [text, ms] of good) it(`reads ${text}`, () => assert.equal(parseDuration('x', text), ms))

  for (const text of ['', '5', '1d', '10 minutes', 's', '1s ', '1s2', '1e3s', '.s', '--1s']) {
    it(`refuses "${text}" with a valid example`, () => {
      assert.throws(
        () => parseDuration('ipvs.syncPeriod', text),
        new ConfigError('ipvs.syncPeriod', `must be a duration such as 30s, 1m30s or 500ms, not "${text}"`),
      )
    })
  }

  it('adds its parts', () => {
    const part = fc.nat(10_000)
    fc.assert(
      fc.property(part, part, part, (h, s, ms) => {
        assert.equal(parseDuration('x', `${h}h${s}s${ms}ms`), h * 3_600_000 + s * 1000 + ms)
      }),
    )
  })
})

type ServersInput = NonNullable<ConfigInput['servers']>

describe('resolveConfig', () => {
  it('fills the defaults', () => {
    assert.deepEqual(resolveConfig({ manifests: '/m' }), {
      manifests: '/m',
      mode: 'iptables',
      modeFallback: true,
      hostnameOverride: undefined,
      bindAddress: undefined,
      iptables: {
        masqueradeBit: 14,
        masqueradeAll: false,
        localhostNodePorts: true,
        syncPeriodMs: 30_000,
        minSyncPeriodMs: 0,
      },
      nftables: { masqueradeBit: 14, masqueradeAll: false, syncPeriodMs: 30_000, minSyncPeriodMs: 0 },
      detectLocalMode: 'ClusterCIDR',
      detectLocal: { bridgeInterface: '', interfaceNamePrefix: '' },
      clusterCIDR: [],
      nodePortAddresses: [],
      defaultMode: undefined,
      isModeUnset: true,
      ipvs: {
        scheduler: 'rr',
        schedulerFlags: [],
        syncPeriodMs: 30_000,
        minSyncPeriodMs: 0,
        excludeCIDRs: [],
        strictARP: false,
        tcpTimeoutSeconds: 0,
        tcpFinTimeoutSeconds: 0,
        udpTimeoutSeconds: 0,
        gracefulPeriodMs: Infinity,
        runEstimation: undefined,
        markMask: 0x107f,
      },
      iptablesFlavour: 'auto',
      vipBinding: 'routes',
      nodePortHolding: false,
      controlSocket: '/run/viaduct/viaduct.sock',
      featureGates: {
        AllowServiceExternalIPs: true,
        KubeProxyNFTablesLocalhostNodePorts: false,
        withoutEffect: {},
        unknown: [],
      },
      localhostNodePorts: false,
      udpIdleMs: 250,
      conntrack: {
        maxPerCore: 32_768,
        min: 131_072,
        tcpEstablishedTimeoutMs: 86_400_000,
        tcpCloseWaitTimeoutMs: 3_600_000,
        tcpBeLiberal: false,
        udpTimeoutMs: 0,
        udpStreamTimeoutMs: 0,
      },
      servers: {
        healthzBindAddress: { host: '0.0.0.0', port: 10256 },
        metricsBindAddress: { host: '127.0.0.1', port: 10249 },
        bindAddressHardFail: false,
        statusPage: 'auto',
        enableProfiling: false,
      },
      client: {
        clientConnection: {
          kubeconfig: '',
          acceptContentTypes: '',
          contentType: 'application/vnd.kubernetes.protobuf',
          qps: 5,
          burst: 10,
        },
        master: '',
      },
      oomScoreAdj: -999,
      withoutEffect: {},
      ignoredFields: [],
      discardedFlags: [],
      writeConfigTo: undefined,
      initOnly: false,
      cleanup: false,
      verbosity: 0,
      loggingFormat: 'json',
      version,
      commit,
    })
  })

  it('needs no manifests for a clean-up', () => {
    assert.equal(resolveConfig({ cleanup: true }).manifests, undefined)
  })

  it('trims and lower-cases the host name', () => {
    assert.equal(resolveConfig({ manifests: 'm', hostnameOverride: ' Node-A ' }).hostnameOverride, 'node-a')
  })

  it('parses excluded networks', () => {
    const { ipvs } = resolveConfig({ manifests: 'm', ipvs: { excludeCIDRs: ['010.1.2.3/8', 'fd00::/8'] } })
    assert.deepEqual(ipvs.excludeCIDRs, [
      { family: 'ipv4', address: '10.0.0.0', prefixLength: 8 },
      { family: 'ipv6', address: 'fd00::', prefixLength: 8 },
    ])
  })

  it('reads what iptables mode needs', () => {
    const config = resolveConfig({
      manifests: 'm',
      mode: 'iptables',
      bindAddress: '192.0.2.007',
      iptables: { masqueradeBit: 0, masqueradeAll: true, localhostNodePorts: false, minSyncPeriodMs: 5 },
      clusterCIDR: ['10.244.0.000/16', 'fd00:10:244::/56'],
      nodePortAddresses: ['192.0.2.0/24', '::/0'],
    })
    assert.equal(config.mode, 'iptables')
    assert.equal(config.bindAddress, '192.0.2.7')
    assert.deepEqual(config.iptables, {
      masqueradeBit: 0,
      masqueradeAll: true,
      localhostNodePorts: false,
      syncPeriodMs: 30_000,
      minSyncPeriodMs: 5,
    })
    assert.deepEqual(config.clusterCIDR, [
      { family: 'ipv4', address: '10.244.0.0', prefixLength: 16 },
      { family: 'ipv6', address: 'fd00:10:244::', prefixLength: 56 },
    ])
    assert.deepEqual(config.nodePortAddresses, [
      { family: 'ipv4', address: '192.0.2.0', prefixLength: 24 },
      { family: 'ipv6', address: '::', prefixLength: 0 },
    ])
    const keywords = ['primary', 'localhost', 'all']
    assert.deepEqual(resolveConfig({ nodePortAddresses: keywords }).nodePortAddresses, keywords)
    assert.equal(resolveConfig({ manifests: 'm', bindAddress: '::' }).bindAddress, undefined)
  })

  it('separates the feature gates with an effect from the others, and names unknown gates', () => {
    const featureGates = {
      NativeHistograms: true,
      AllowServiceExternalIPs: false,
      KubeProxyNFTablesLocalhostNodePorts: true,
      NFTablesProxyMode: false,
      NoSuchGate: true,
      AllAlpha: false,
    }
    assert.deepEqual(resolveConfig({ manifests: 'm', featureGates }).featureGates, {
      AllowServiceExternalIPs: false,
      KubeProxyNFTablesLocalhostNodePorts: true,
      withoutEffect: { NativeHistograms: true, NFTablesProxyMode: false, NoSuchGate: true, AllAlpha: false },
      unknown: ['NoSuchGate'],
    })
  })

  const schedulings: readonly {
    readonly name: string
    readonly written: NonNullable<ConfigInput['ipvs']>
    readonly scheduler: string
    readonly flags: readonly string[]
  }[] = [
    { name: 'a scheduler without flags', written: { scheduler: 'wlc' }, scheduler: 'wlc', flags: [] },
    { name: 'mh as kube-proxy sets it', written: { scheduler: 'mh' }, scheduler: 'mh', flags: ['mh-port'] },
    {
      name: 'mh without any',
      written: { scheduler: 'mh', schedulerFlags: ['none'] },
      scheduler: 'mh',
      flags: [],
    },
    {
      name: 'mh with both',
      written: { scheduler: 'mh', schedulerFlags: ['mh-port', 'mh-fallback'] },
      scheduler: 'mh',
      flags: ['mh-fallback', 'mh-port'],
    },
    { name: 'sh as kube-proxy sets it', written: { scheduler: 'sh' }, scheduler: 'sh', flags: [] },
    {
      name: 'sh with a fallback',
      written: { scheduler: 'sh', schedulerFlags: ['sh-fallback'] },
      scheduler: 'sh',
      flags: ['sh-fallback'],
    },
    { name: 'blank', written: { scheduler: '', schedulerFlags: [] }, scheduler: 'rr', flags: [] },
  ]
  for (const { name, written, scheduler, flags } of schedulings) {
    it(`F-113 ${name}`, () => {
      const { ipvs } = resolveConfig({ manifests: 'm', ipvs: written })
      assert.deepEqual([ipvs.scheduler, ipvs.schedulerFlags], [scheduler, flags])
    })
  }

  const addresses: [string, ServersInput, string | undefined][] = [
    ['0.0.0.0', {}, '0.0.0.0 10256'],
    ['192.0.2.1', { healthzBindAddress: '' }, '0.0.0.0 10256'],
    ['::', {}, ':: 10256'],
    ['fd00::1', { healthzPort: 8 }, ':: 8'],
    ['0.0.0.0', { healthzBindAddress: '192.0.2.001' }, '192.0.2.1 10256'],
    ['0.0.0.0', { healthzBindAddress: 'fd00:0::1' }, 'fd00::1 10256'],
    ['0.0.0.0', { healthzBindAddress: 'fd00::1', healthzPort: 9 }, 'fd00::1 9'],
    ['0.0.0.0', { healthzBindAddress: '[FD00::1]:80', healthzPort: 9 }, 'fd00::1 80'],
    ['0.0.0.0', { healthzBindAddress: '127.0.0.1:65535' }, '127.0.0.1 65535'],
    ['0.0.0.0', { healthzBindAddress: '127.0.0.1:80', healthzPort: 0 }, undefined],
    ['0.0.0.0', { healthzServer: false }, undefined],
  ]
  for (const [bindAddress, servers, expected] of addresses) {
    it(`serves health for ${JSON.stringify(servers)} on a node ${bindAddress}`, () => {
      const { healthzBindAddress: found } = resolveConfig({ manifests: 'm', bindAddress, servers }).servers
      assert.equal(found === undefined ? found : `${found.host} ${found.port}`, expected)
    })
  }

  it('serves metrics on loopback of the same family', () => {
    const { metricsBindAddress } = resolveConfig({ manifests: 'm', bindAddress: 'fd00::1' }).servers
    assert.deepEqual(metricsBindAddress, { host: '::1', port: 10249 })
  })

  it('validates clusterCIDR only in mode ClusterCIDR', () => {
    const input = { manifests: 'm', clusterCIDR: ['x', '10.0.0.0/8', '10.0.0.0/9'] }
    assert.equal(resolveConfig({ ...input, detectLocalMode: 'NodeCIDR' }).clusterCIDR.length, 2)
  })

  it('keeps the masquerade bit out of the default markMask', () => {
    const masks = [14, 12, 0, 31].map(
      (masqueradeBit) => resolveConfig({ manifests: 'm', iptables: { masqueradeBit } }).ipvs.markMask,
    )
    assert.deepEqual(masks, [0x107f, 0x7f, 0x107e, 0x107f])
    assert.equal(resolveConfig({ manifests: 'm', ipvs: { markMask: 0xffff0000 } }).ipvs.markMask, 0xffff0000)
  })

  const wrong: [ConfigInput, string][] = [
    [{ mode: 'ebpf' }, 'mode: must be iptables, ipvs, nftables or userspace, not "ebpf"'],
    [{ udpIdleMs: -1 }, 'udpIdleTimeout: must be greater than 0'],
    [{ hostnameOverride: ' \t' }, 'hostnameOverride: empty hostname-override is invalid'],
    [{ ipvs: { markMask: 0 } }, 'ipvs.markMask: must have 1 to 32 bits, 0x1 to 0xffffffff, not 0'],
    [
      { ipvs: { markMask: 2 ** 32 } },
      'ipvs.markMask: must have 1 to 32 bits, 0x1 to 0xffffffff, not 4294967296',
    ],
    [
      { ipvs: { markMask: 0xf000 } },
      'ipvs.markMask: must not contain 0x4000, which asks for masquerading (iptables.masqueradeBit 14)',
    ],
    [
      { ipvs: { markMask: 0xffff0000 }, iptables: { masqueradeBit: 31 } },
      'ipvs.markMask: must not contain 0x80000000, which asks for masquerading (iptables.masqueradeBit 31)',
    ],
    [{ ipvs: { gracefulPeriodMs: -1 } }, 'ipvs.gracefulPeriod: must be greater than or equal to 0'],
    [
      { ipvs: { scheduler: 'a scheduler' } },
      'ipvs.scheduler: must be a scheduler of the kernel such as rr, lc or mh, not "a scheduler"',
    ],
    [
      { ipvs: { scheduler: 'mh', schedulerFlags: ['sh-port'] } },
      'ipvs.schedulerFlags: "sh-port" is no flag of the scheduler mh, which has: mh-fallback, mh-port',
    ],
    [
      { ipvs: { schedulerFlags: ['none', 'mh-port'] } },
      'ipvs.schedulerFlags: "none" is no flag of the scheduler rr, which has none',
    ],
    [{ ipvs: { tcpTimeoutSeconds: -1 } }, 'ipvs.tcpTimeout: must be greater than or equal to 0'],
    [{ ipvs: { tcpFinTimeoutSeconds: -1 } }, 'ipvs.tcpFinTimeout: must be greater than or equal to 0'],
    [{ ipvs: { udpTimeoutSeconds: 597 * 3600 } }, 'ipvs.udpTimeout: must be at most 596h'],
    [{ ipvs: { syncPeriodMs: 0 } }, 'ipvs.syncPeriod: must be greater than 0'],
    [{ ipvs: { syncPeriodMs: 597 * 3_600_000 } }, 'ipvs.syncPeriod: must be at most 596h'],
    [{ ipvs: { minSyncPeriodMs: -1 } }, 'ipvs.minSyncPeriod: must not be negative'],
    [
      { ipvs: { syncPeriodMs: 1000, minSyncPeriodMs: 1001 } },
      'ipvs.minSyncPeriod: must not be longer than the sync period (1000 ms)',
    ],
    [
      { ipvs: { excludeCIDRs: ['10.0.0.0'] } },
      'ipvs.excludeCIDRs: must be networks such as 10.0.0.0/8 or fd00::/8, not "10.0.0.0"',
    ],
    [{ iptables: { masqueradeBit: 32 } }, 'iptables.masqueradeBit: must be within the range [0, 31], not 32'],
    [{ iptables: { syncPeriodMs: 0 } }, 'iptables.syncPeriod: must be greater than 0'],
    [
      { iptables: { syncPeriodMs: 1000, minSyncPeriodMs: 1001 } },
      'iptables.minSyncPeriod: must not be longer than the sync period (1000 ms)',
    ],
    [{ nftables: { masqueradeBit: 32 } }, 'nftables.masqueradeBit: must be within the range [0, 31], not 32'],
    [{ nftables: { masqueradeBit: -1 } }, 'nftables.masqueradeBit: must be within the range [0, 31], not -1'],
    [{ nftables: { syncPeriodMs: 0 } }, 'nftables.syncPeriod: must be greater than 0'],
    [{ nftables: { syncPeriodMs: 597 * 3_600_000 } }, 'nftables.syncPeriod: must be at most 596h'],
    [{ nftables: { minSyncPeriodMs: -1 } }, 'nftables.minSyncPeriod: must not be negative'],
    [
      { nftables: { syncPeriodMs: 1000, minSyncPeriodMs: 1001 } },
      'nftables.minSyncPeriod: must not be longer than the sync period (1000 ms)',
    ],
    [
      { bindAddress: 'node' },
      'bindAddress: must be a valid IP address (e.g. 10.9.8.7 or 2001:db8::ffff), not "node"',
    ],
    [
      { detectLocalMode: 'clusterCIDR' },
      'detectLocalMode: must be ClusterCIDR, NodeCIDR, BridgeInterface, InterfaceNamePrefix or blank, not "clusterCIDR"',
    ],
    [
      { detectLocalMode: 'BridgeInterface' },
      `detectLocal.bridgeInterface: must be the name of the pods' bridge, 1 to 15 bytes, in mode BridgeInterface, not ""`,
    ],
    [
      { detectLocalMode: 'BridgeInterface', detectLocal: { bridgeInterface: 'brückenü-größe' } },
      `detectLocal.bridgeInterface: must be the name of the pods' bridge, 1 to 15 bytes, in mode BridgeInterface, not "brückenü-größe"`,
    ],
    [
      { detectLocalMode: 'InterfaceNamePrefix', detectLocal: { interfaceNamePrefix: 'longer-than-14c' } },
      `detectLocal.interfaceNamePrefix: must be how names of the pods' interfaces begin, 1 to 14 bytes, in mode InterfaceNamePrefix, not "longer-than-14c"`,
    ],
    [
      { clusterCIDR: ['10.0.0.0'] },
      'clusterCIDR: must be a valid CIDR block (e.g. 10.100.0.0/16 or fde4:8dba:82e1::/48), not "10.0.0.0"',
    ],
    [
      { clusterCIDR: ['10.0.0.0/8', 'fd00::/8', 'fc00::/8'] },
      'clusterCIDR: only one CIDR allowed or a valid DualStack CIDR (e.g. 10.100.0.0/16,fde4:8dba:82e1::/48)',
    ],
    [
      { clusterCIDR: ['10.0.0.0/8', '11.0.0.0/8'] },
      'clusterCIDR: must be a valid DualStack CIDR (e.g. 10.100.0.0/16,fde4:8dba:82e1::/48): one of each family',
    ],
    [
      { nodePortAddresses: ['localhost', '10.0.0.0/8', 'localhost'] },
      'nodePortAddresses: has the keyword "localhost" twice',
    ],
    [
      { nodePortAddresses: ['primary', 'eth0'] },
      'nodePortAddresses: must be a valid CIDR or one of the keywords primary, localhost and all, not "eth0"',
    ],
    [{ conntrack: { maxPerCore: -1 } }, 'conntrack.maxPerCore: must be greater than or equal to 0'],
    [{ conntrack: { udpTimeoutMs: -1 } }, 'conntrack.udpTimeout: must be greater than or equal to 0'],
    [{ servers: { healthzBindAddress: 'a:80' } }, 'healthzBindAddress: must be a valid IP, not "a:80"'],
    [{ servers: { healthzBindAddress: ':80' } }, 'healthzBindAddress: must be a valid IP, not ":80"'],
    [
      { servers: { healthzBindAddress: '127.0.0.1:0' } },
      'healthzBindAddress: must be a valid port, not "127.0.0.1:0"',
    ],
    [
      { servers: { metricsBindAddress: '127.0.0.1:65536' } },
      'metricsBindAddress: must be a valid port, not "127.0.0.1:65536"',
    ],
    [
      { servers: { metricsBindAddress: '127.0.0.1:' } },
      'metricsBindAddress: must be a valid port, not "127.0.0.1:"',
    ],
    [
      { servers: { metricsBindAddress: '127.0.0.1:1:2' } },
      'metricsBindAddress: must be IP:port, not "127.0.0.1:1:2"',
    ],
    [{ servers: { metricsPort: 65_536 } }, 'metricsPort: must be a valid port, not 65536'],
    [{ client: { clientConnection: { burst: -1 } } }, 'clientConnection.burst: must be non-negative'],
    [{ oomScoreAdj: 1001 }, 'oomScoreAdj: must be within the range [-1000, 1000], not 1001'],
    [{ withoutEffect: { configSyncPeriod: '-1s' } }, 'configSyncPeriod: must be greater than 0'],
    [{ vipBinding: 'route' }, 'vipBinding: must be routes or addresses, not "route"'],
    [{ loggingFormat: 'xml' }, 'logging.format: must be json or text, not "xml"'],
    [{ verbosity: 1.5 }, 'logging.verbosity: must be a whole number from 0, not 1.5'],
  ]
  for (const [input, message] of wrong) {
    it(`refuses ${JSON.stringify(input)}`, () => {
      assert.throws(() => resolveConfig({ manifests: 'm', ...input }), { name: 'ConfigError', message })
    })
  }
})

describe('formatDuration', () => {
  const cases: [number, string][] = [
    [0, '0s'],
    [86_400_000, '24h0m0s'],
    [90_000, '1m30s'],
    [1500, '1.5s'],
    [500, '500ms'],
    [1.5, '1.5ms'],
    [0.0015, '1.5µs'],
    [0.000_001, '1ns'],
    [60_000.000_001, '1m0.000000001s'],
    [-5000, '-5s'],
  ]
  for (const [ms, text] of cases) it(`writes ${text}`, () => assert.equal(formatDuration(ms), text))

  it('is the inverse of parseDuration', () => {
    const hundredHoursNs = 360_000_000_000_000
    fc.assert(
      fc.property(fc.integer({ min: -hundredHoursNs, max: hundredHoursNs }), (ns) => {
        const ms = Math.round(ns) / 1e6
        assert.equal(parseDuration('x', formatDuration(ms)), ms)
      }),
    )
  })
})

describe('version', () => {
  it('is that of package.json', () => {
    const project: unknown = JSON.parse(readFileSync('package.json', 'utf8'))
    assert.ok(typeof project === 'object' && project !== null && 'version' in project)
    assert.equal(version, project.version)
  })
})
