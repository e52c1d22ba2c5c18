import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import * as fc from 'fast-check'
import { readConfig, resolveConfig, type ConfigInput } from '../../../src/config/index.js'

const head = 'apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n'
const viaductHead = 'apiVersion: viaduct.dev/v1alpha1\nkind: ViaductConfiguration\n'
const read = (text: string): ConfigInput => readConfig('f.yaml', Buffer.from(text))
const resolve = (text: string) => resolveConfig({ manifests: 'm', ...read(text) })

// Like kubeadm's ConfigMap kube-proxy: every field, most of them null or zero.
const ofKubeadm = `
apiVersion: kubeproxy.config.k8s.io/v1alpha1
bindAddress: 0.0.0.0
bindAddressHardFail: false
clientConnection:
  acceptContentTypes: ""
  burst: 0
  contentType: ""
  kubeconfig: /var/lib/kube-proxy/kubeconfig.conf
  qps: 0
clusterCIDR: 10.244.0.0/16
configSyncPeriod: 0s
conntrack:
  maxPerCore: null
  min: null
  tcpBeLiberal: false
  tcpCloseWaitTimeout: null
  tcpEstablishedTimeout: null
  udpStreamTimeout: 0s
  udpTimeout: 0s
detectLocal:
  bridgeInterface: ""
  interfaceNamePrefix: ""
detectLocalMode: ""
enableProfiling: false
healthzBindAddress: ""
hostnameOverride: ""
iptables:
  localhostNodePorts: null
  masqueradeAll: false
  masqueradeBit: null
  minSyncPeriod: 0s
  syncPeriod: 0s
ipvs:
  excludeCIDRs: null
  minSyncPeriod: 0s
  scheduler: ""
  strictARP: false
  syncPeriod: 0s
  tcpFinTimeout: 0s
  tcpTimeout: 0s
  udpTimeout: 0s
kind: KubeProxyConfiguration
logging:
  flushFrequency: 0
  options:
    json:
      infoBufferSize: "0"
    text:
      infoBufferSize: "0"
  verbosity: 0
metricsBindAddress: ""
mode: ""
nftables:
  masqueradeAll: false
  masqueradeBit: null
  minSyncPeriod: 0s
  syncPeriod: 0s
nodePortAddresses: null
oomScoreAdj: null
portRange: ""
showHiddenMetricsForVersion: ""
winkernel:
  enableDSR: false
  forwardHealthCheckVip: false
  networkName: ""
  rootHnsEndpointName: ""
  sourceVip: ""
`

describe('readConfig', () => {
  it('accepts a file with every field, in which zeros mean defaults', () => {
    const client = { clientConnection: { kubeconfig: '/var/lib/kube-proxy/kubeconfig.conf' } }
    assert.deepEqual(
      resolve(ofKubeadm),
      resolveConfig({ manifests: 'm', client, clusterCIDR: ['10.244.0.0/16'] }),
    )
  })

  const good: [string, ConfigInput][] = [
    ['', {}],
    ['mode: iptables', { mode: 'iptables' }],
    ['"mode": "ipvs"', { mode: 'ipvs' }],
    ['featureGates: {AllowServiceExternalIPs: false}', { featureGates: { AllowServiceExternalIPs: false } }],
    ['clientConnection: {qps: 2.5, burst: 3}', { client: { clientConnection: { qps: 2.5, burst: 3 } } }],
    ['logging: {format: text, verbosity: 3}', { loggingFormat: 'text', verbosity: 3 }],
    [
      'logging: {flushFrequency: 7s}\nclientConnection: null',
      { withoutEffect: { 'logging.flushFrequency': '7s' } },
    ],
    ['logging: {flushFrequency: 7000000000}', { withoutEffect: { 'logging.flushFrequency': '7s' } }],
    [
      'logging: {vmodule: [{filePattern: a, verbosity: 1}, {filePattern: b*, verbosity: 2}]}',
      { withoutEffect: { 'logging.vmodule': 'a=1,b*=2' } },
    ],
    [
      'logging: {options: {json: {splitStream: true, infoBufferSize: 64Ki}, text: {infoBufferSize: 5}}}',
      {
        withoutEffect: {
          'logging.options.json.splitStream': true,
          'logging.options.json.infoBufferSize': '64Ki',
          'logging.options.text.infoBufferSize': '5',
        },
      },
    ],
    ['udpIdleTimeout: 1s\nmode: userspace', { mode: 'userspace', udpIdleMs: 1000 }],
    [`---\n${viaductHead}localhostNodePorts: true`, { localhostNodePorts: true }],
    ['healthzBindAddress: 192.0.2.1', { servers: { healthzBindAddress: '192.0.2.1:10256' } }],
    [
      'bindAddressHardFail: true\nenableProfiling: true',
      { servers: { bindAddressHardFail: true, enableProfiling: true } },
    ],
    [
      'iptables: {masqueradeBit: 0, masqueradeAll: true, localhostNodePorts: false, syncPeriod: 1m, minSyncPeriod: 1s}',
      {
        iptables: {
          masqueradeBit: 0,
          masqueradeAll: true,
          localhostNodePorts: false,
          syncPeriodMs: 60_000,
          minSyncPeriodMs: 1000,
        },
      },
    ],
    [
      'ipvs: {scheduler: mh, excludeCIDRs: [10.0.0.0/8], strictARP: true, tcpTimeout: 15m, tcpFinTimeout: 1999ms, udpTimeout: 999ms}',
      {
        ipvs: {
          scheduler: 'mh',
          excludeCIDRs: ['10.0.0.0/8'],
          strictARP: true,
          tcpTimeoutSeconds: 900,
          tcpFinTimeoutSeconds: 1,
          udpTimeoutSeconds: 0,
        },
      },
    ],
    [
      'mode: nftables\nnftables: {masqueradeBit: 3, masqueradeAll: true, syncPeriod: 1h, minSyncPeriod: 1s}',
      {
        mode: 'nftables',
        nftables: { masqueradeBit: 3, masqueradeAll: true, syncPeriodMs: 3_600_000, minSyncPeriodMs: 1000 },
      },
    ],
    ['clusterCIDR: 10.0.0.0/8, fd00::/8', { clusterCIDR: ['10.0.0.0/8', 'fd00::/8'] }],
    ['nodePortAddresses: [primary]', { nodePortAddresses: ['primary'] }],
    ['nodePortAddresses: [primary, localhost]', { nodePortAddresses: ['primary', 'localhost'] }],
    ['nodePortAddresses: [10.0.0.0/8, all]', { nodePortAddresses: ['10.0.0.0/8', 'all'] }],
    [
      'detectLocalMode: BridgeInterface\ndetectLocal: {bridgeInterface: cni0}',
      { detectLocalMode: 'BridgeInterface', detectLocal: { bridgeInterface: 'cni0' } },
    ],
    ['bindAddress: "::"\noomScoreAdj: 0', { bindAddress: '::', oomScoreAdj: 0 }],
    [
      'conntrack: {maxPerCore: 0, min: 1, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 1s, tcpBeLiberal: true}',
      {
        conntrack: {
          maxPerCore: 0,
          min: 1,
          tcpEstablishedTimeoutMs: 0,
          tcpCloseWaitTimeoutMs: 1000,
          tcpBeLiberal: true,
        },
      },
    ],
    ['windowsRunAsService: true', { withoutEffect: { windowsRunAsService: true } }],
    ['windowsRunAsService: yes', { withoutEffect: { windowsRunAsService: true } }],
    ['enableProfiling: on', { servers: { enableProfiling: true } }],
    ['iptables: {masqueradeBit: 016}', { iptables: { masqueradeBit: 14 } }],
    [
      'iptables: &rules {masqueradeBit: 5}\nnftables: {<<: *rules, masqueradeAll: y}',
      { iptables: { masqueradeBit: 5 }, nftables: { masqueradeBit: 5, masqueradeAll: true } },
    ],
    ['mode: nftables\nnodePortAddresses: []', { mode: 'nftables', nodePortAddresses: ['primary'] }],
    [
      `---\n${viaductHead}modeFallback: false\nvipBinding: addresses`,
      { modeFallback: false, vipBinding: 'addresses' },
    ],
    [`---\n${viaductHead}iptablesFlavour: legacy`, { iptablesFlavour: 'legacy' }],
    [`---\n${viaductHead}defaultMode: nftables`, { mode: 'nftables', defaultMode: 'nftables' }],
    [`mode: ipvs\n---\n${viaductHead}defaultMode: nftables`, { mode: 'ipvs', defaultMode: 'nftables' }],
    [`---\n${viaductHead}nodePortHolding: true`, { nodePortHolding: true }],
    [`---\n${viaductHead}controlSocket: /s`, { controlSocket: '/s' }],
    [`---\n${viaductHead}statusPage: never`, { servers: { statusPage: 'never' } }],
    [`---\n${viaductHead}controlSocket: ""`, { controlSocket: '' }],
    [
      `---\n---\n${viaductHead}ipvs: {schedulerFlags: [none], gracefulPeriod: 0s, runEstimation: false}\nmetricsServer: false`,
      {
        ipvs: { schedulerFlags: ['none'], gracefulPeriodMs: 0, runEstimation: false },
        servers: { metricsServer: false },
      },
    ],
    [
      `---\n${viaductHead}ipvs: {gracefulPeriod: infinity, markMask: 0xfff0000}`,
      { ipvs: { gracefulPeriodMs: Infinity, markMask: 0xfff0000 } },
    ],
    [`---\n${viaductHead}ipvs: {markMask: "0xfff0000"}`, { ipvs: { markMask: 0xfff0000 } }],
  ]
  for (const [text, input] of good) {
    it(`reads ${JSON.stringify(text)}`, () =>
      assert.deepEqual(resolve(`${head}${text}`), resolveConfig({ manifests: 'm', ...input })))
  }

  const ignored: readonly (readonly [text: string, input: ConfigInput, ...problems: readonly string[]])[] = [
    [
      'mode: iptables\nmode: ipvs\nmode: ipvs',
      { mode: 'ipvs' },
      'mode: is written twice (line 4)',
      'mode: is written twice (line 5)',
    ],
    [
      'iptables:\n  syncPeriod: 1s\n  masqueradeBit: 1\n  syncPeriod: 2s',
      { iptables: { masqueradeBit: 1, syncPeriodMs: 2000 } },
      'iptables.syncPeriod: is written twice (line 6)',
    ],
    [
      'iptables: {masqueradeBit: 1}\nmode: ipvs\niptables: {masqueradeAll: true}',
      { mode: 'ipvs', iptables: { masqueradeAll: true } },
      'iptables: is written twice (line 5)',
    ],
    [
      'logging:\n  options: {json: {splitStream: true}, text: {splitStream: true, splitStream: false}}',
      {
        withoutEffect: {
          'logging.options.json.splitStream': true,
          'logging.options.text.splitStream': false,
        },
      },
      'logging.options.text.splitStream: is written twice (line 4)',
    ],
    [
      'logging:\n  vmodule:\n  - {filePattern: a, verbosity: 1}\n  - {filePattern: a, filePattern: b, verbosity: 1}',
      { withoutEffect: { 'logging.vmodule': 'a=1,b=1' } },
      'logging.vmodule[1].filePattern: is written twice (line 6)',
    ],
    [
      'logging: {vmodule: [{filePattern: a, verbosity: 1, level: 1}]}',
      { withoutEffect: { 'logging.vmodule': 'a=1' } },
      'logging.vmodule[0].level: is not a field of KubeProxyConfiguration',
    ],
    [
      `---\n${viaductHead}ipvs: {gracefulPeriod: 1s, gracefulPeriod: 2s}`,
      { ipvs: { gracefulPeriodMs: 2000 } },
      'ipvs.gracefulPeriod: is written twice (line 6)',
    ],
    [
      'resourceContainer: /kube-proxy\nportRange: ""\niptables: {syncPeriods: 1s, masqueradeBit: 2}',
      { iptables: { masqueradeBit: 2 } },
      'resourceContainer: is not a field of KubeProxyConfiguration',
      'iptables.syncPeriods: is not a field of KubeProxyConfiguration',
    ],
    [
      '---\napiVersion: v1\nkind: ConfigMap\ndata: {mode: ipvs}\n---\n- hunter2',
      {},
      'document 2: is not read: v1, ConfigMap',
      'document 3: is not read: a list',
    ],
    [
      `mode: ipvs\n---\n${viaductHead}modeFallback: false\n---\nhunter2`,
      { mode: 'ipvs', modeFallback: false },
      'document 3: is not read: text',
    ],
    ['modes: null', {}, 'modes: is not a field of KubeProxyConfiguration'],
    ['mode.x: 1', {}, '"mode.x": is not a field of KubeProxyConfiguration'],
    ['ipvs.scheduler: lc', {}, '"ipvs.scheduler": is not a field of KubeProxyConfiguration'],
    ['__proto__: {mode: ipvs}', {}, '__proto__: is not a field of KubeProxyConfiguration'],
    [
      'vipBinding: addresses',
      {},
      'vipBinding: is not a field of KubeProxyConfiguration; ViaductConfiguration has it',
    ],
    [
      `---\n${viaductHead}mode: ipvs\nmodeFallbak: false`,
      {},
      'mode: is not a field of ViaductConfiguration; KubeProxyConfiguration has it',
      'modeFallbak: is not a field of ViaductConfiguration',
    ],
  ]
  for (const [text, input, ...ignoredFields] of ignored) {
    it(`reads ${JSON.stringify(text)} without ${ignoredFields.join(', ')}`, () =>
      assert.deepEqual(resolve(`${head}${text}`), resolveConfig({ manifests: 'm', ...input, ignoredFields })))

    it(`refuses ${JSON.stringify(text)} in strict mode`, () =>
      assert.throws(() => readConfig('f.yaml', Buffer.from(`${head}${text}`), { isStrict: true }), {
        name: 'ConfigError',
        path: 'f.yaml',
        message: `f.yaml: ${ignoredFields.join('; ')}`,
      }))
  }

  it('accepts a valid file in strict mode', () => {
    assert.equal(readConfig('f.yaml', Buffer.from(ofKubeadm), { isStrict: true }).mode, '')
  })

  it('reads JSON with tabs, and a byte order mark', () => {
    const text =
      '\uFEFF{\n\t"apiVersion": "kubeproxy.config.k8s.io/v1alpha1",\n\t"kind": "KubeProxyConfiguration",\n\t"mode": "ipvs"\n}'
    assert.equal(read(text).mode, 'ipvs')
  })

  it('reads documents in any order', () => {
    assert.equal(read(`${viaductHead}manifests: x\n---\n${head}`).manifests, 'x')
  })

  const kinds =
    'kubeproxy.config.k8s.io/v1alpha1 KubeProxyConfiguration or viaduct.dev/v1alpha1 ViaductConfiguration'
  const wrong: [string, string][] = [
    ['', 'is empty'],
    ['# nothing', 'must hold a KubeProxyConfiguration, kubeproxy.config.k8s.io/v1alpha1'],
    [viaductHead, 'must hold a KubeProxyConfiguration, kubeproxy.config.k8s.io/v1alpha1'],
    [`${head}---\n${head}`, 'holds more than one KubeProxyConfiguration'],
    ['apiVersion: v1\nkind: Service', `got unexpected config type: v1, Service; must be ${kinds}`],
    ['mode: ipvs', `got unexpected config type: no apiVersion, no kind; must be ${kinds}`],
    ['- a', 'must be a mapping with apiVersion and kind, not a list'],
    ['hunter2', 'must be a mapping with apiVersion and kind, not text'],
    ['root:x:0:0:root:/root:/bin/sh\ndaemon:x:1:1', 'must be a mapping with apiVersion and kind, not text'],
    ['42', 'must be a mapping with apiVersion and kind, not a number'],
    ['*hunter2', 'line 1, column 9: unidentified alias'],
    [
      'apiVersion: hunter two\nkind: {a: b}',
      `got unexpected config type: apiVersion that is no name, kind that is no name; must be ${kinds}`,
    ],
    [
      `${head}---\napiVersion: viaduct.dev/v2\nkind: ViaductConfiguration`,
      `got unexpected config type: viaduct.dev/v2, ViaductConfiguration; must be ${kinds}`,
    ],
    [
      `apiVersion: v1\nkind: Service\n---\n${head}`,
      `got unexpected config type: v1, Service; must be ${kinds}`,
    ],
    [
      `${head}iptables: ${'x'.repeat(1000)}`,
      `iptables: must be a mapping, not the text "${'x'.repeat(100)}…"`,
    ],
    [`${head}mode: [`, 'line 4, column 1: unexpected end of the stream within a flow collection'],
    [`${head}iptables: all`, 'iptables: must be a mapping, not the text "all"'],
    [`${head}mode: true`, 'mode: must be text (quote it), not true'],
    [`${head}mode: {a: 1}`, 'mode: must be text (quote it), not a mapping'],
    [`${head}enableProfiling: "yes"`, 'enableProfiling: must be true or false, not the text "yes"'],
    [`${head}mode: on`, 'mode: must be text (quote it), not true'],
    [
      `${head}iptables: {masqueradeBit: "14"}`,
      'iptables.masqueradeBit: must be a whole number, not the text "14"',
    ],
    [`${head}conntrack: {min: 4294967296}`, 'conntrack.min: must be a whole number, not 4294967296'],
    [
      `${head}---\n${viaductHead}ipvs: {markMask: few}`,
      'ipvs.markMask: must be bits such as 0x107f, not the text "few"',
    ],
    [`${head}clientConnection: {qps: .inf}`, 'clientConnection.qps: must be a number, not Infinity'],
    [
      `${head}ipvs: {syncPeriod: 30}`,
      'ipvs.syncPeriod: must be a duration such as 30s, 1m30s or 500ms, not 30',
    ],
    [
      `${head}ipvs: {syncPeriod: 30 s}`,
      'ipvs.syncPeriod: must be a duration such as 30s, 1m30s or 500ms, not "30 s"',
    ],
    [
      `${head}---\n${viaductHead}ipvs: {gracefulPeriod: .inf}`,
      'ipvs.gracefulPeriod: must be a duration such as 30s, 1m30s or 500ms, or infinity, not Infinity',
    ],
    [
      `${head}ipvs: {excludeCIDRs: 10.0.0.0/8}`,
      'ipvs.excludeCIDRs: must be a list, not the text "10.0.0.0/8"',
    ],
    [`${head}nodePortAddresses: [primary, 1]`, 'nodePortAddresses[1]: must be text (quote it), not 1'],
    [`${head}clusterCIDR: [10.0.0.0/8]`, 'clusterCIDR: must be text (quote it), not a list'],
    [`${head}featureGates: {AllAlpha: 1}`, 'featureGates.AllAlpha: must be true or false, not 1'],
    [`${head}featureGates: AllAlpha=true`, 'featureGates: must be a mapping, not the text "AllAlpha=true"'],
    [
      `${head}logging: {vmodule: [{filePattern: "a=b", verbosity: 1}]}`,
      'logging.vmodule[0].filePattern: must be text without "=" and ",", not the text "a=b"',
    ],
    [
      `${head}logging: {vmodule: [{filePattern: a, verbosity: -1}]}`,
      'logging.vmodule[0].verbosity: must be a whole number from 0, not -1',
    ],
    [`${head}logging: {vmodule: [a=1]}`, 'logging.vmodule[0]: must be a mapping, not the text "a=1"'],
    [
      `${head}logging: {options: {text: {infoBufferSize: big}}}`,
      'logging.options.text.infoBufferSize: must be an amount such as 0 or 64Ki, not the text "big"',
    ],
  ]
  for (const [text, message] of wrong) {
    it(`refuses ${JSON.stringify(text.replace(head, ''))}`, () => {
      assert.throws(() => read(text), { name: 'ConfigError', path: 'f.yaml', message: `f.yaml: ${message}` })
    })
  }

  it('refuses deep nesting', () => {
    assert.throws(() => read('['.repeat(1_000_000)), {
      message: 'f.yaml: line 1, column 100: nesting exceeded maxDepth (100)',
    })
  })

  it('refuses a YAML alias that contains itself', () => {
    assert.throws(() => read(`${head}clusterCIDR: &a [*a]`), {
      message: 'f.yaml: line 3: an alias contains itself',
    })
  })

  it('refuses bytes that are not UTF-8', () => {
    assert.throws(() => readConfig('f', Uint8Array.of(0x61, 0xff)), { message: 'f: must be UTF-8 text' })
  })

  it('never throws anything but a ConfigError', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.boolean(), (text, isBehindHead) => {
        try {
          read(isBehindHead ? `${head}${text}` : text)
        } catch (error) {
          assert.equal(error instanceof Error && error.name, 'ConfigError')
        }
      }),
    )
  })
})
