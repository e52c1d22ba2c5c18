import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { inputWarnings, resolveConfig, type ConfigInput } from '../../../src/config/index.js'

describe('what of valid input is not in force', () => {
  const cases: readonly { name: string; config: ConfigInput; expected: readonly string[] }[] = [
    { name: 'nothing', config: {}, expected: [] },
    {
      name: 'unknown and repeated fields of the file, in one sentence',
      config: { ignoredFields: ['a: is not a field', 'b: is written twice'] },
      expected: ['the configuration file is not all in force: a: is not a field; b: is written twice'],
    },
    {
      name: 'feature gates without effect',
      config: { featureGates: { AllAlpha: true, AllowServiceExternalIPs: true, AllBeta: false } },
      expected: ['feature gates without effect in this build: AllAlpha, AllBeta'],
    },
    {
      name: 'settings without effect, but not those that are what they are worth unwritten',
      config: {
        withoutEffect: { 'logging.flushFrequency': '1s', configSyncPeriod: '15m0s', portRange: '1-2' },
      },
      expected: ['settings without effect in this build: logging.flushFrequency, portRange'],
    },
    {
      name: 'how an API is reached that nobody asks',
      config: { client: { clientConnection: { kubeconfig: 'k', qps: 5 }, master: 'm' } },
      expected: [
        'settings without effect while manifests are the source: clientConnection.kubeconfig, master',
      ],
    },
    {
      name: 'flags that a file has replaced',
      config: { discardedFlags: ['proxy-mode', 'profiling'] },
      expected: ['flags without effect beside --config: --proxy-mode, --profiling'],
    },
  ]
  for (const { name, config, expected } of cases) {
    it(name, () => assert.deepEqual(inputWarnings(resolveConfig({ manifests: 'm', ...config })), expected))
  }
})
