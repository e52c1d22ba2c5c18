import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { flags, parseArguments } from '../../../src/cli/index.js'
import { resolveConfig, takeFlag } from '../../../src/config/index.js'

const blank = new Set([
  'cluster-cidr',
  'config',
  'detect-local-mode',
  'feature-gates',
  'hostname-override',
  'ipvs-exclude-cidrs',
  'ipvs-run-estimation',
  'ipvs-scheduler-flags',
  'kubeconfig',
  'manifests',
  'master',
  'nodeport-addresses',
  'pod-bridge-interface',
  'pod-interface-name-prefix',
  'proxy-mode',
  'proxy-port-range',
  'show-hidden-metrics-for-version',
  'vmodule',
  'write-config-to',
])

function flagTexts(argv: readonly string[]): Readonly<Record<string, string>> {
  const file = 'apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n'
  const invocation = parseArguments(argv, () => Buffer.from(file))
  assert.ok('flagTexts' in invocation, 'text' in invocation ? invocation.text : undefined)
  return invocation.flagTexts
}

/** Two valid texts for a flag. */
function twoTexts(name: string, metavar: string): readonly [string, string] {
  const texts: Readonly<Record<string, readonly [string, string]>> = {
    'proxy-mode': ['ipvs', 'iptables'],
    'detect-local-mode': ['NodeCIDR', 'ClusterCIDR'],
    'iptables-flavour': ['nft', 'legacy'],
    'status-page': ['always', 'never'],
    'ipvs-scheduler-flags': ['mh-port', 'none'],
    'logging-format': ['text', 'json'],
    'show-hidden-metrics-for-version': ['1.35', ''],
    'vip-binding': ['addresses', 'routes'],
    BIT: ['1', '2'],
    BITS: ['0x1', '0x2'],
    CIDRS: ['10.0.0.0/8', 'fd00::/8'],
    DURATION: ['3s', '2s'],
    GATES: ['A=true', 'B=false'],
    IP: ['192.0.2.1', 'fd00::1'],
    'IP[:PORT]': ['192.0.2.1:1', '[fd00::1]:2'],
    LEVEL: ['1', '2'],
    NUMBER: ['1', '2'],
    PATTERNS: ['a=1', 'b=2'],
    PORT: ['1', '2'],
    SIZE: ['1Ki', '2Ki'],
  }
  return texts[name] ?? texts[metavar] ?? ['a', 'b']
}

describe('the texts of all flags', () => {
  it('have a text for every flag, also without any argument', () => {
    assert.deepEqual(Object.keys(flagTexts([])).toSorted(), flags.map(({ name }) => name).toSorted())
  })

  for (const { name, setting } of flags.filter((flag) => !blank.has(flag.name))) {
    it(`have the default of --${name}`, () => {
      const input = takeFlag({}, setting, flagTexts([])[name] ?? '')
      // This flag has an effect by its presence.
      const given = name === 'iptables-localhost-nodeports' ? { localhostNodePorts: true } : {}
      assert.deepEqual(resolveConfig(input), resolveConfig(given))
    })
  }

  it('are empty for flags without a fixed default', () => {
    const found = Object.entries(flagTexts([])).filter(([, text]) => text === '')
    assert.deepEqual(found.map(([name]) => name).toSorted(), [...blank].toSorted())
  })

  const added = ['feature-gates', 'ipvs-exclude-cidrs', 'nodeport-addresses', 'vmodule']
  for (const { name, metavar } of flags) {
    if (metavar === undefined) continue
    it(`${added.includes(name) ? 'join both values' : 'have the last value'} of --${name}`, () => {
      const [first, second] = twoTexts(name, metavar)
      const scheduler = name === 'ipvs-scheduler-flags' ? ['--ipvs-scheduler=mh'] : []
      const text = flagTexts([...scheduler, `--${name}=${first}`, `--${name}=${second}`])[name]
      assert.equal(text, added.includes(name) ? `${first},${second}` : second)
    })
  }

  it('have no user and password of --master', () => {
    assert.equal(flagTexts(['--master=https://me:p@ss@server:6443/a@b'])['master'], 'https://server:6443/a@b')
  })

  it('have the text of each spelling of a flag', () => {
    const texts = flagTexts(['--v=2', '-v=4', '--masquerade_all', '--cluster-cidr', '10.0.0.0/8'])
    const { v, 'masquerade-all': isAll, 'cluster-cidr': cidr, 'proxy-mode': mode } = texts
    assert.deepEqual([v, isAll, cidr, mode], ['4', 'true', '10.0.0.0/8', ''])
  })
})
