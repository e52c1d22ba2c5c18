import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { inputWarnings, resolveConfig, type ConfigInput } from '../../../src/config/index.js'

describe('warnings about settings without effect', () => {
  const cases: readonly { name: string; config: ConfigInput; expected: readonly string[] }[] = [
    { name: 'nothing', config: {}, expected: [] },
    {
      name: 'unknown and repeated fields of the file, in one sentence',
      config: { ignoredFields: ['a: is not a field', 'b: is written twice'] },
      expected: ['parts of the configuration file have no effect: a: is not a field; b: is written twice'],
    },
    {
      name: 'no warning about feature gates of the last seven releases',
      config: {
        featureGates: {
          AllAlpha: true,
          AllBeta: false,
          AllowServiceExternalIPs: false,
          // A gate of 1.31; of all seven releases, locked in the last; of the last ones, locked; of 1.36; of client-go; of the API server.
          AppArmor: true,
          MultiCIDRServiceAllocator: false,
          PreferSameTrafficDistribution: false,
          AtomicFIFO: true,
          WatchListClient: true,
          APIServerTracing: true,
          // Gates of 1.37: of the kubelet, of client-go and of the API server.
          HugepageAwareEviction: true,
          WatchListCompression: false,
          EtcdRangeStream: true,
        },
      },
      expected: [],
    },
    {
      name: 'unknown feature gates',
      config: { featureGates: { Nope: true, AllAlpha: true, NeitherThis: false } },
      expected: ['unknown feature gates have no effect: Nope, NeitherThis'],
    },
    {
      name: 'ipvs mode beside a gate that refuses it',
      config: { mode: 'ipvs', featureGates: { KubeProxyIPVS: false } },
      expected: [
        'feature gate KubeProxyIPVS is false and mode is ipvs, which kube-proxy 1.37 refuses: ipvs mode runs all the same',
      ],
    },
    {
      name: 'no warning about that gate in its default or in another mode',
      config: { mode: 'nftables', featureGates: { KubeProxyIPVS: false } },
      expected: [],
    },
    {
      name: 'settings without effect that are not at their default',
      config: {
        withoutEffect: { 'logging.flushFrequency': '1s', configSyncPeriod: '15m0s', portRange: '1-2' },
      },
      expected: ['settings have no effect in this build: logging.flushFrequency, portRange'],
    },
    {
      name: 'settings of the API client while manifests are the source',
      config: { client: { clientConnection: { kubeconfig: 'k', qps: 5 }, master: 'm' } },
      expected: [
        'settings have no effect while manifests are the source: clientConnection.kubeconfig, master',
      ],
    },
    {
      name: 'flags without effect',
      config: { withoutEffect: { 'boot-id-file': 'b', 'machine-id-file': 'm' } },
      expected: ['flags have no effect in this build: --boot-id-file, --machine-id-file'],
    },
    {
      name: 'flags that the file replaces',
      config: { discardedFlags: ['proxy-mode', 'profiling'] },
      expected: ['flags have no effect beside --config: --proxy-mode, --profiling'],
    },
  ]
  for (const { name, config, expected } of cases) {
    it(name, () => assert.deepEqual(inputWarnings(resolveConfig({ manifests: 'm', ...config })), expected))
  }
})
