import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import * as fc from 'fast-check'
import {
  effectiveConfiguration,
  formatConfig,
  readConfig,
  resolveConfig,
  type ConfigInput,
} from '../../../src/config/index.js'

const read = (text: string): ConfigInput => readConfig('f.yaml', Buffer.from(text))

function maybe<T>(value: fc.Arbitrary<T>) {
  return fc.option(value, { nil: undefined })
}

describe('formatConfig', () => {
  it('writes every field with its default', () => {
    assert.equal(
      formatConfig(resolveConfig({ manifests: '/m' })),
      `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
featureGates: {}
clientConnection:
  kubeconfig: ""
  acceptContentTypes: ""
  contentType: application/vnd.kubernetes.protobuf
  qps: 5
  burst: 10
logging:
  format: json
  flushFrequency: 5s
  verbosity: 0
  vmodule: []
  options:
    text:
      splitStream: false
      infoBufferSize: "0"
    json:
      splitStream: false
      infoBufferSize: "0"
hostnameOverride: ""
bindAddress: 0.0.0.0
healthzBindAddress: 0.0.0.0:10256
metricsBindAddress: 127.0.0.1:10249
bindAddressHardFail: false
enableProfiling: false
showHiddenMetricsForVersion: ""
mode: iptables
iptables:
  masqueradeBit: 14
  masqueradeAll: false
  localhostNodePorts: true
  syncPeriod: 30s
  minSyncPeriod: 0s
ipvs:
  syncPeriod: 30s
  minSyncPeriod: 0s
  scheduler: rr
  excludeCIDRs: []
  strictARP: false
  tcpTimeout: 0s
  tcpFinTimeout: 0s
  udpTimeout: 0s
nftables:
  masqueradeBit: 14
  masqueradeAll: false
  syncPeriod: 30s
  minSyncPeriod: 0s
winkernel:
  networkName: ""
  sourceVip: ""
  enableDSR: false
  rootHnsEndpointName: ""
  forwardHealthCheckVip: false
windowsRunAsService: false
detectLocalMode: ClusterCIDR
detectLocal:
  bridgeInterface: ""
  interfaceNamePrefix: ""
clusterCIDR: ""
nodePortAddresses: []
oomScoreAdj: -999
conntrack:
  maxPerCore: 32768
  min: 131072
  tcpEstablishedTimeout: 24h0m0s
  tcpCloseWaitTimeout: 1h0m0s
  tcpBeLiberal: false
  udpTimeout: 0s
  udpStreamTimeout: 0s
configSyncPeriod: 15m0s
portRange: ""
---
apiVersion: viaduct.dev/v1alpha1
kind: ViaductConfiguration
manifests: /m
modeFallback: true
iptablesFlavour: auto
vipBinding: routes
nodePortHolding: false
controlSocket: /run/viaduct/viaduct.sock
healthzServer: true
metricsServer: true
statusPage: auto
defaultMode: ""
localhostNodePorts: false
ipvs:
  schedulerFlags:
    - none
  gracefulPeriod: infinity
  markMask: "0x107f"
`,
    )
  })

  it('quotes text that YAML would read as another type', () => {
    const portRanges = [
      'yes',
      'Off',
      'n',
      'null',
      '~',
      '1e3',
      '0x1f',
      '0o7',
      '016',
      '0x_1F',
      '1_000',
      '12:30',
      '.inf',
      '2001-01-01',
      '- a',
      'a: b',
      'a #b',
    ]
    for (const portRange of portRanges) {
      const text = formatConfig(resolveConfig({ manifests: 'm', withoutEffect: { portRange } }))
      assert.match(text, new RegExp(`^portRange: (["']).*\\1$`, 'mu'), portRange)
    }
  })

  const someText = fc.string({ unit: 'binary' })
  const durationMs = fc.nat(86_400_000)
  const addressText = fc.constantFrom('', '192.0.2.1', 'fd00::1', '127.0.0.1:80', '[::1]:65535')
  const networks = fc.array(fc.constantFrom('10.0.0.0/8', 'fd00::/8', '192.0.2.0/24'))
  const inputs: fc.Arbitrary<ConfigInput> = fc.record({
    manifests: someText.filter((written) => written !== ''),
    mode: fc.constantFrom('', 'ipvs', 'iptables', 'nftables'),
    modeFallback: fc.boolean(),
    hostnameOverride: maybe(someText.filter((written) => written.trim() !== '')),
    bindAddress: fc.constantFrom('0.0.0.0', '::', '192.0.2.1', 'fd00::1'),
    featureGates: fc.dictionary(
      fc.constantFrom('AllowServiceExternalIPs', 'AllAlpha', 'AllBeta'),
      fc.boolean(),
    ),
    defaultMode: fc.constantFrom('', 'iptables', 'nftables'),
    iptablesFlavour: fc.constantFrom('auto', 'nft', 'legacy'),
    vipBinding: fc.constantFrom('routes', 'addresses'),
    nodePortHolding: fc.boolean(),
    controlSocket: maybe(someText),
    udpIdleMs: durationMs.map((ms) => ms + 1),
    localhostNodePorts: fc.boolean(),
    verbosity: fc.nat(10),
    loggingFormat: fc.constantFrom('json', 'text'),
    detectLocalMode: fc.constantFrom('', 'ClusterCIDR', 'NodeCIDR'),
    detectLocal: fc.record({ bridgeInterface: maybe(someText), interfaceNamePrefix: maybe(someText) }),
    clusterCIDR: fc.constantFrom([], ['10.0.0.0/8'], ['fd00::/8', '10.0.0.0/8']),
    nodePortAddresses: fc
      .tuple(fc.subarray(['primary', 'localhost', 'all']), networks)
      .map(([keywords, others]) => [...others, ...keywords]),
    iptables: fc.record({
      masqueradeBit: fc.nat(31),
      masqueradeAll: fc.boolean(),
      localhostNodePorts: fc.boolean(),
      syncPeriodMs: durationMs.map((ms) => ms + 1000),
      minSyncPeriodMs: fc.nat(1000),
    }),
    nftables: fc.record({
      masqueradeBit: fc.nat(31),
      masqueradeAll: fc.boolean(),
      syncPeriodMs: durationMs.map((ms) => ms + 1000),
      minSyncPeriodMs: fc.nat(1000),
    }),
    ipvs: fc.record({
      scheduler: fc.constantFrom('', 'rr', 'mh'),
      schedulerFlags: fc.constantFrom([], ['none']),
      excludeCIDRs: networks,
      strictARP: fc.boolean(),
      syncPeriodMs: durationMs.map((ms) => ms + 1000),
      minSyncPeriodMs: fc.nat(1000),
      tcpTimeoutSeconds: fc.nat(86_400),
      tcpFinTimeoutSeconds: fc.nat(86_400),
      udpTimeoutSeconds: fc.nat(86_400),
      gracefulPeriodMs: fc.oneof(durationMs, fc.constant(Infinity)),
      runEstimation: maybe(fc.boolean()),
    }),
    conntrack: fc.record({
      maxPerCore: fc.nat(100_000),
      min: fc.nat(),
      tcpEstablishedTimeoutMs: durationMs,
      tcpCloseWaitTimeoutMs: durationMs,
      tcpBeLiberal: fc.boolean(),
      udpTimeoutMs: durationMs,
      udpStreamTimeoutMs: durationMs,
    }),
    servers: fc.record({
      healthzBindAddress: maybe(addressText),
      metricsBindAddress: maybe(addressText),
      healthzPort: maybe(fc.nat(65_535)),
      metricsPort: maybe(fc.nat(65_535)),
      bindAddressHardFail: fc.boolean(),
      statusPage: fc.constantFrom('auto', 'always', 'never'),
      enableProfiling: fc.boolean(),
    }),
    client: fc.record({
      clientConnection: fc.record({
        kubeconfig: someText,
        acceptContentTypes: someText,
        contentType: someText,
        qps: fc.float({ noNaN: true, noDefaultInfinity: true }).filter((qps) => !Object.is(qps, -0)),
        burst: fc.nat(),
      }),
    }),
    oomScoreAdj: fc.integer({ min: -1000, max: 1000 }),
    withoutEffect: fc.record({
      configSyncPeriod: fc.constantFrom('15m0s', '1s', '1h0m0s'),
      'logging.vmodule': fc.constantFrom('', 'a=1', 'a=1,b*=2'),
      'logging.options.text.splitStream': fc.boolean(),
      'logging.options.json.infoBufferSize': fc.constantFrom('0', '64Ki'),
      portRange: someText,
      windowsRunAsService: fc.boolean(),
    }),
  })

  it('survives a round trip through a file', () => {
    fc.assert(
      fc.property(inputs, (input) => {
        const config = resolveConfig(input)
        // A written file names the mode.
        assert.deepEqual(resolveConfig(read(formatConfig(config))), { ...config, isModeUnset: false })
      }),
    )
  })
})

describe('effectiveConfiguration', () => {
  it('has the mode that runs, and keywords as they were written (F-097)', () => {
    const written = ['localhost', '192.0.2.0/24', 'primary', 'all']
    const config = resolveConfig({ manifests: '/m', nodePortAddresses: written, verbosity: 2 })
    const { kind, apiVersion, mode, detectLocalMode, nodePortAddresses, ...rest } = effectiveConfiguration(
      config,
      'ipvs',
    )
    assert.deepEqual([apiVersion, kind], ['kubeproxy.config.k8s.io/v1alpha1', 'KubeProxyConfiguration'])
    assert.deepEqual([mode, detectLocalMode, nodePortAddresses], ['ipvs', 'ClusterCIDR', written])
    assert.equal(Object(rest['logging']).verbosity, 2)
    assert.ok(!('manifests' in rest))
  })
})
