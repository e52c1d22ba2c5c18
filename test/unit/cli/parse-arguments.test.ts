import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import { loadAll } from 'js-yaml'
import { type Configuration, flags, parseArguments } from '../../../src/cli/index.js'
import { formatConfig, resolveConfig, type ConfigInput } from '../../../src/config/index.js'
import { commit, version } from '../../../src/version.js'
import { ConfigError } from '../../../src/errors.js'

const noFile = (path: string): never => {
  throw new ConfigError(path, 'cannot be read: it does not exist (ENOENT)')
}

/** The result without the texts of flags, which flag-texts.test.ts tests. */
function configuration(
  argv: readonly string[],
  readFile: (path: string) => Uint8Array,
): Omit<Configuration, 'flagTexts'> {
  const invocation = parseArguments(argv, readFile)
  if ('exitCode' in invocation) throw new assert.AssertionError({ message: invocation.text })
  const { flagTexts: _, ...rest } = invocation
  return rest
}

describe('parseArguments', () => {
  const good: [string[], ConfigInput][] = [
    [['--manifests=m'], {}],
    [['--manifests', 'm'], {}],
    [['--manifests=x', '--manifests=m'], {}],
    [['--manifests=m', '-v=4'], { verbosity: 4 }],
    [['--manifests=m', '-v', '4'], { verbosity: 4 }],
    [['--manifests=m', '--v=4'], { verbosity: 4 }],
    [['--manifests=m', '--v', '4'], { verbosity: 4 }],
    [['--manifests=m', '--cleanup'], { cleanup: true }],
    [['--cleanup', '--manifests=m'], { cleanup: true }],
    [['--cleanup=true', '--manifests=m'], { cleanup: true }],
    [['--cleanup=false', '--manifests=m'], {}],
    [['--cleanup', 'false', '--manifests=m'], {}],
    [['--cleanup=F', '--manifests=m'], {}],
    [['--manifests=m', '--proxy-mode='], {}],
    [['--manifests=m', '--proxy_mode=ipvs'], { mode: 'ipvs' }],
    [['--manifests=m', '--hostname-override', ' Node-A'], { hostnameOverride: 'node-a' }],
    [['--manifests=m', '--hostname-override='], {}],
    [['--manifests=m', '--ipvs-scheduler=mh'], { ipvs: { scheduler: 'mh' } }],
    [['--manifests=m', '--ipvs-sync-period=1m30s'], { ipvs: { syncPeriodMs: 90_000 } }],
    [['--manifests=m', '--ipvs-min-sync-period', '500ms'], { ipvs: { minSyncPeriodMs: 500 } }],
    [
      ['--manifests=m', '--ipvs-exclude-cidrs=10.0.0.0/8, fd00::/8', '--ipvs-exclude-cidrs=192.0.2.0/24'],
      { ipvs: { excludeCIDRs: ['10.0.0.0/8', 'fd00::/8', '192.0.2.0/24'] } },
    ],
    [
      ['--manifests=m', '--ipvs-scheduler=mh', '--ipvs-scheduler-flags=mh-port, mh-fallback'],
      { ipvs: { scheduler: 'mh', schedulerFlags: ['mh-port', 'mh-fallback'] } },
    ],
    [['--manifests=m', '--ipvs-strict-arp'], { ipvs: { strictARP: true } }],
    [
      ['--manifests=m', '--ipvs-tcp-timeout=15m', '--ipvs-tcpfin-timeout=1999ms', '--ipvs-udp-timeout=999ms'],
      { ipvs: { tcpTimeoutSeconds: 900, tcpFinTimeoutSeconds: 1, udpTimeoutSeconds: 0 } },
    ],
    [['--manifests=m', '--ipvs-graceful-period=10m'], { ipvs: { gracefulPeriodMs: 600_000 } }],
    [['--manifests=m', '--ipvs-graceful-period=infinity'], { ipvs: { gracefulPeriodMs: Infinity } }],
    [['--manifests=m', '--ipvs-run-estimation=false'], { ipvs: { runEstimation: false } }],
    [['--manifests=m', '--ipvs-mark-mask=0xFf0000'], { ipvs: { markMask: 0xff0000 } }],
    [['--manifests=m', '--ipvs-mark-mask=4223'], { ipvs: { markMask: 0x107f } }],
    [['--manifests=m', '--proxy-mode=iptables'], { mode: 'iptables' }],
    [['--manifests=m', '--proxy-mode=userspace', '--udp-timeout=1s'], { mode: 'userspace', udpIdleMs: 1000 }],
    [['--manifests=m', '--proxy-port-range=1000-2000'], { withoutEffect: { portRange: '1000-2000' } }],
    [
      ['--manifests=m', '--iptables-localhost-nodeports'],
      { iptables: { localhostNodePorts: true }, localhostNodePorts: true },
    ],
    [['--manifests=m', '--bind-address=192.0.2.1'], { bindAddress: '192.0.2.1' }],
    [['--manifests=m', '--iptables-masquerade-bit=0'], { iptables: { masqueradeBit: 0 } }],
    [
      ['--manifests=m', '--masquerade-all', '--iptables-localhost-nodeports=false'],
      {
        iptables: { masqueradeAll: true, localhostNodePorts: false },
        localhostNodePorts: false,
        nftables: { masqueradeAll: true },
      },
    ],
    [
      ['--manifests=m', '--iptables-sync-period=1m', '--iptables-min-sync-period=1s'],
      {
        iptables: { syncPeriodMs: 60_000, minSyncPeriodMs: 1000 },
        nftables: { syncPeriodMs: 60_000, minSyncPeriodMs: 1000 },
      },
    ],
    [
      ['--manifests=m', '--cluster-cidr=10.244.0.0/16,fd00:10:244::/56'],
      { clusterCIDR: ['10.244.0.0/16', 'fd00:10:244::/56'] },
    ],
    [['--manifests=m', '--cluster-cidr='], {}],
    [['--manifests=m', '--detect-local-mode=NodeCIDR'], { detectLocalMode: 'NodeCIDR' }],
    [
      ['--manifests=m', '--detect-local-mode=BridgeInterface', '--pod-bridge-interface=cni0'],
      { detectLocalMode: 'BridgeInterface', detectLocal: { bridgeInterface: 'cni0' } },
    ],
    [
      ['--manifests=m', '--detect-local-mode=InterfaceNamePrefix', '--pod-interface-name-prefix=veth'],
      { detectLocalMode: 'InterfaceNamePrefix', detectLocal: { interfaceNamePrefix: 'veth' } },
    ],
    [['--manifests=m', '--proxy-mode=nftables'], { mode: 'nftables' }],
    [['--manifests=m', '--mode-fallback=false'], { modeFallback: false }],
    [['--manifests=m', '--nodeport-addresses=primary'], { nodePortAddresses: ['primary'] }],
    [
      ['--manifests=m', '--nodeport-addresses=primary,localhost', '--nodeport-addresses=192.0.2.0/24,all'],
      { nodePortAddresses: ['primary', 'localhost', '192.0.2.0/24', 'all'] },
    ],
    [
      ['--manifests=m', '--nodeport-addresses=10.0.0.0/8, fd00::/8', '--nodeport-addresses=192.0.2.0/24'],
      { nodePortAddresses: ['10.0.0.0/8', 'fd00::/8', '192.0.2.0/24'] },
    ],
    [['--manifests=m', '--feature-gates='], {}],
    [
      ['--manifests=m', '--boot-id-file=/b', '--machine_id_file', '/m,/n', '--boot_id_file=/c'],
      { withoutEffect: { 'boot-id-file': '/c', 'machine-id-file': '/m,/n' } },
    ],
    [['--manifests=m', '--version=false', '--version=v1.31.0'], {}],
    [['--manifests=m', '--feature-gates=Nope=true'], { featureGates: { Nope: true } }],
    [
      [
        '--manifests=m',
        '--feature-gates=AllAlpha=T, AllowServiceExternalIPs=false',
        '--feature-gates=AllAlpha=f',
      ],
      { featureGates: { AllAlpha: false, AllowServiceExternalIPs: false } },
    ],
    [
      ['--manifests=m', '--conntrack-max-per-core=0', '--conntrack-min=1', '--conntrack-tcp-be-liberal'],
      { conntrack: { maxPerCore: 0, min: 1, tcpBeLiberal: true } },
    ],
    [
      [
        '--manifests=m',
        '--conntrack-tcp-timeout-established=1h',
        '--conntrack-tcp-timeout-close-wait=0',
        '--conntrack-udp-timeout=30s',
        '--conntrack-udp-timeout-stream=2m',
      ],
      {
        conntrack: {
          tcpEstablishedTimeoutMs: 3_600_000,
          tcpCloseWaitTimeoutMs: 0,
          udpTimeoutMs: 30_000,
          udpStreamTimeoutMs: 120_000,
        },
      },
    ],
    [['--manifests=m', '--vip-binding=addresses'], { vipBinding: 'addresses' }],
    [['--manifests=m', '--hold-node-ports'], { nodePortHolding: true }],
    [['--manifests=m', '--hold-node-ports=false'], { nodePortHolding: false }],
    [['--manifests=m', '--iptables-flavour=nft'], { iptablesFlavour: 'nft' }],
    [['--manifests=m', '--iptables-flavour', 'legacy'], { iptablesFlavour: 'legacy' }],
    [['--manifests=m', '--logging-format=text'], { loggingFormat: 'text' }],
    [['--manifests=m', '--config='], {}],
    [['--manifests=m', '--write-config-to=f'], { writeConfigTo: 'f' }],
    [['--manifests=m', '--write-config-to='], {}],
    [['--manifests=m', '--init-only'], { initOnly: true }],
    [
      ['--manifests=m', '--healthz-bind-address=192.0.2.1', '--metrics-bind-address=[fd00::1]:80'],
      { servers: { healthzBindAddress: '192.0.2.1:10256', metricsBindAddress: '[fd00::1]:80' } },
    ],
    [
      ['--manifests=m', '--healthz-bind-address=', '--healthz-port=1', '--metrics-port=2'],
      { servers: { healthzBindAddress: '0.0.0.0:1', metricsBindAddress: '127.0.0.1:2' } },
    ],
    [
      ['--manifests=m', '--healthz-bind-address=192.0.2.1:80', '--healthz-port=0', '--metrics-port=0'],
      { servers: { healthzServer: false, metricsServer: false } },
    ],
    [
      ['--manifests=m', '--bind-address-hard-fail', '--profiling'],
      { servers: { bindAddressHardFail: true, enableProfiling: true } },
    ],
    [
      ['--manifests=m', '--kubeconfig=/k', '--master=https://192.0.2.1:6443'],
      { client: { clientConnection: { kubeconfig: '/k' }, master: 'https://192.0.2.1:6443' } },
    ],
    [
      [
        '--manifests=m',
        '--kube-api-content-type=application/json',
        '--kube-api-qps=-1',
        '--kube-api-burst=3',
      ],
      { client: { clientConnection: { contentType: 'application/json', qps: -1, burst: 3 } } },
    ],
    [
      ['--manifests=m', '--kube-api-qps=2.5', '--kube-api-burst=0'],
      { client: { clientConnection: { qps: 2.5 } } },
    ],
    [
      [
        '--manifests=m',
        '--oom-score-adj',
        '-5',
        '--config-sync-period=1h',
        '--show-hidden-metrics-for-version=1.36',
      ],
      {
        oomScoreAdj: -5,
        withoutEffect: { configSyncPeriod: '1h0m0s', showHiddenMetricsForVersion: '1.36' },
      },
    ],
    [
      ['--manifests=m', '--vmodule=a=1,b*=2', '--vmodule=c=3', '--log-flush-frequency=1s'],
      { withoutEffect: { 'logging.vmodule': 'a=1,b*=2,c=3', 'logging.flushFrequency': '1s' } },
    ],
    [
      ['--manifests=m', '--log-text-split-stream', '--log-json-info-buffer-size=64Ki'],
      {
        withoutEffect: {
          'logging.options.text.splitStream': true,
          'logging.options.json.infoBufferSize': '64Ki',
        },
      },
    ],
    [['--manifests=m', '--log-json-split-stream=false', '--log-text-info-buffer-size=0'], {}],
  ]
  for (const [argv, input] of good) {
    it(`takes ${argv.join(' ')}`, () => {
      assert.deepEqual(configuration(argv, noFile), { config: resolveConfig({ manifests: 'm', ...input }) })
    })
  }

  const wrong: [string[], string][] = [
    [['--manifests'], '--manifests: needs a value (DIR)'],
    [['--version=yes'], '--version: must be true or false, not "yes"'],
    [['--boot-id-file'], '--boot-id-file: needs a value (FILES)'],
    [['--manifests=m', '-v'], '-v: needs a value (LEVEL)'],
    [['--manifests=m', 'extra'], 'unexpected argument "extra": only flags are taken'],
    [['--manifests=m', '--', '--v=1'], 'unexpected argument "--v=1": only flags are taken'],
    [['--proxy-mod=ipvs'], 'unknown flag --proxy-mod; did you mean --proxy-mode?'],
    [['--proxy_mod=ipvs'], 'unknown flag --proxy-mod; did you mean --proxy-mode?'],
    [['--proxy-mdoe', 'ipvs'], 'unknown flag --proxy-mdoe; did you mean --proxy-mode?'],
    [['--versoin'], 'unknown flag --versoin; did you mean --version?'],
    [['--help=1'], 'unknown flag --help=1; did you mean --help?'],
    [['-x'], 'unknown flag -x'],
    [['--zzzzzzzz'], 'unknown flag --zzzzzzzz'],
    [['--zzzzzzzz=secret'], 'unknown flag --zzzzzzzz'],
    [['--manifests=m', '--cleanup=maybe'], '--cleanup: must be true or false, not "maybe"'],
    [['--manifests=m', '-v=high'], '-v: must be a whole number from 0, not "high"'],
    [
      ['--manifests=m', '--proxy-mode=ebpf'],
      '--proxy-mode: must be iptables, ipvs, nftables or userspace, not "ebpf"',
    ],
    [
      ['--manifests=m', '--ipvs-graceful-period=forever'],
      '--ipvs-graceful-period: must be a duration such as 30s, 1m30s or 500ms, or infinity, not "forever"',
    ],
    [
      ['--manifests=m', '--ipvs-sync-period=5'],
      '--ipvs-sync-period: must be a duration such as 30s, 1m30s or 500ms, not "5"',
    ],
    [
      ['--manifests=m', '--ipvs-scheduler=wlc', '--ipvs-scheduler-flags=sh-port'],
      '--ipvs-scheduler-flags: "sh-port" is no flag of the scheduler wlc, which has none',
    ],
    [
      ['--manifests=m', '--ipvs-tcp-timeout', '-1s'],
      '--ipvs-tcp-timeout: must be greater than or equal to 0',
    ],
    [['--manifests=m', '--ipvs-strict-arp=on'], '--ipvs-strict-arp: must be true or false, not "on"'],
    [['--manifests=m', '--ipvs-sync-period', '0'], '--ipvs-sync-period: must be greater than 0'],
    [['--manifests=m', '--ipvs-sync-period', '-5s'], '--ipvs-sync-period: must be greater than 0'],
    [['--manifests=m', '--hostname-override= '], '--hostname-override: empty hostname-override is invalid'],
    [
      ['--manifests=m', '--iptables-masquerade-bit=-1'],
      '--iptables-masquerade-bit: must be a whole number from 0, not "-1"',
    ],
    [
      ['--manifests=m', '--iptables-masquerade-bit=32'],
      '--iptables-masquerade-bit: must be within the range [0, 31], not 32',
    ],
    [
      ['--manifests=m', '--detect-local-mode=BridgeInterface'],
      `--pod-bridge-interface: must be the name of the pods' bridge, 1 to 15 bytes, in mode BridgeInterface, not ""`,
    ],
    [
      ['--manifests=m', '--nodeport-addresses=primary,10.0.0.0/8', '--nodeport-addresses=primary'],
      '--nodeport-addresses: has the keyword "primary" twice',
    ],
    [['--manifests=m', '--masquerade-all=yes'], '--masquerade-all: must be true or false, not "yes"'],
    [
      ['--manifests=m', '--feature-gates=AllowServiceExternalIPs'],
      '--feature-gates: must be written NAME=true,OTHER=false, not "AllowServiceExternalIPs"',
    ],
    [
      ['--manifests=m', '--feature-gates=AllowServiceExternalIPs=no'],
      '--feature-gates: AllowServiceExternalIPs must be true or false, not "no"',
    ],
    [['--manifests=m', '--conntrack-min=-1'], '--conntrack-min: must be a whole number from 0, not "-1"'],
    [
      ['--manifests=m', '--conntrack-udp-timeout', '-1s'],
      '--conntrack-udp-timeout: must be greater than or equal to 0',
    ],
    [['--manifests=m', '--vip-binding=x'], '--vip-binding: must be routes or addresses, not "x"'],
    [
      ['--manifests=m', '--iptables-flavour=nftables'],
      '--iptables-flavour: must be auto, nft or legacy, not "nftables"',
    ],
    [['--config=/absent'], '/absent: cannot be read: it does not exist (ENOENT)'],
    [['--config=/absent', '--masquerade-all=x'], '--masquerade-all: must be true or false, not "x"'],
    [
      ['--manifests=m', '--healthz-bind-address=localhost'],
      '--healthz-bind-address: must be IP:port, not "localhost"',
    ],
    [
      ['--manifests=m', '--oom-score-adj=-1001'],
      '--oom-score-adj: must be within the range [-1000, 1000], not -1001',
    ],
    [['--manifests=m', '--oom-score-adj=low'], '--oom-score-adj: must be a whole number, not "low"'],
    [['--manifests=m', '--config-sync-period=0'], '--config-sync-period: must be greater than 0'],
    [
      ['--manifests=m', '--kube-api-qps=many'],
      '--kube-api-qps: must be a number such as 5 or 2.5, not "many"',
    ],
    [['--manifests=m', '--kube-api-burst=-1'], '--kube-api-burst: must be non-negative'],
    [['--manifests=m', '--vmodule=a'], '--vmodule: must be written PATTERN=LEVEL,OTHER=LEVEL, not "a"'],
    [
      ['--manifests=m', '--log-text-info-buffer-size=big'],
      '--log-text-info-buffer-size: must be an amount such as 0 or 64Ki, not "big"',
    ],
    [
      ['--manifests=m', '--show-hidden-metrics-for-version=1.2'],
      "--show-hidden-metrics-for-version: must be omitted or have the value '1.36': only the previous minor version is allowed",
    ],
  ]
  for (const [argv, sentence] of wrong) {
    it(`refuses ${argv.join(' ') || 'no flag at all'}`, () => {
      const text = `viaduct: ${sentence} (see viaduct --help)\n`
      assert.deepEqual(parseArguments(argv, noFile), { exitCode: 2, problem: sentence, text })
    })
  }

  for (const word of ['--version', '--version=true', '--version=1', '--version=raw']) {
    it(`prints the version for ${word}`, () =>
      assert.deepEqual(parseArguments([word], noFile), {
        exitCode: 0,
        text: `viaduct ${version} (commit ${commit})\n`,
      }))
  }

  it('lists every flag in the help', () => {
    const help = parseArguments(['--help'], noFile)
    assert.ok('text' in help && help.exitCode === 0)
    for (const { name } of flags) assert.match(help.text, new RegExp(`--${name} `, 'u'))
  })
})

describe('parseArguments with --config', () => {
  const head = 'apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n'
  const viaduct = '---\napiVersion: viaduct.dev/v1alpha1\nkind: ViaductConfiguration\n'
  const good: readonly {
    readonly name: string
    readonly file: string
    readonly argv: readonly string[]
    readonly input: ConfigInput
  }[] = [
    {
      name: 'discards flags that have fields in the file, and names each once',
      file: `${head}mode: ipvs`,
      argv: ['--manifests=m', '--proxy-mode=iptables', '--healthz-port=0', '--proxy-mode=', '--kubeconfig=k'],
      input: { mode: 'ipvs', discardedFlags: ['proxy-mode', 'healthz-port', 'kubeconfig'] },
    },
    {
      name: 'discards the flags for iptables mode in nftables mode too',
      file: `${head}mode: nftables\nnftables: {syncPeriod: 10s}`,
      argv: ['--manifests=m', '--masquerade-all', '--iptables-sync-period=1m'],
      input: {
        mode: 'nftables',
        nftables: { syncPeriodMs: 10_000 },
        discardedFlags: ['masquerade-all', 'iptables-sync-period'],
      },
    },
    {
      name: 'lets the flags of host name, logging, --master and tasks win',
      file: `${head}hostnameOverride: a\nlogging: {verbosity: 1, format: json, vmodule: [{filePattern: a, verbosity: 1}]}`,
      argv: [
        '--manifests=m',
        '--hostname-override=B',
        '-v=4',
        '--logging-format=text',
        '--vmodule=b=2',
        '--log-flush-frequency=1s',
        '--master=https://m',
        '--init-only',
        '--write-config-to=w',
      ],
      input: {
        hostnameOverride: 'b',
        verbosity: 4,
        loggingFormat: 'text',
        withoutEffect: { 'logging.vmodule': 'a=1,b=2', 'logging.flushFrequency': '1s' },
        client: { master: 'https://m' },
        initOnly: true,
        writeConfigTo: 'w',
      },
    },
    {
      name: "lets Viaduct's own flags win",
      file: `${head}${viaduct}manifests: x\nvipBinding: addresses\nmodeFallback: false\nipvs: {gracefulPeriod: 1h, runEstimation: false}`,
      argv: ['--manifests=m', '--vip-binding=routes', '--mode-fallback', '--ipvs-graceful-period=0'],
      input: { ipvs: { gracefulPeriodMs: 0, runEstimation: false } },
    },
    {
      name: 'accepts flags without an effect and without a field',
      file: head,
      argv: ['--manifests=m', '--machine-id-file=a', '--machine-id-file=b'],
      input: { withoutEffect: { 'machine-id-file': 'b' } },
    },
    {
      name: 'accepts unknown feature gates',
      file: `${head}featureGates: {Nope: true}`,
      argv: ['--manifests=m'],
      input: { featureGates: { Nope: true } },
    },
    {
      name: 'continues without unknown and repeated fields',
      file: `${head}modes: ipvs\nmode: iptables\nmode: ipvs`,
      argv: ['--manifests=m', '--strict-config=false'],
      input: {
        mode: 'ipvs',
        ignoredFields: ['mode: is written twice (line 5)', 'modes: is not a field of KubeProxyConfiguration'],
      },
    },
    { name: 'needs no other flags', file: `${head}${viaduct}manifests: m`, argv: [], input: {} },
  ]
  for (const { name, file, argv, input } of good) {
    it(name, () => {
      const found = configuration(['--config=f', ...argv], () => Buffer.from(file))
      assert.deepEqual(found, {
        config: resolveConfig({ manifests: 'm', ...input }),
        configFile: { path: 'f', bytes: Buffer.from(file) },
      })
    })
  }

  const wrong: [string, string[], string][] = [
    [
      `${head}mode: ebpf`,
      ['--manifests=m', '--proxy-mode=ipvs'],
      'f: mode: must be iptables, ipvs, nftables or userspace, not "ebpf"',
    ],
    [head, ['--manifests=m', '--logging-format=xml'], '--logging-format: must be json or text, not "xml"'],
    [
      `${head}modes: ipvs`,
      ['--manifests=m', '--strict-config'],
      'f: modes: is not a field of KubeProxyConfiguration',
    ],
  ]
  for (const [file, argv, sentence] of wrong) {
    it(`refuses ${JSON.stringify(file.slice(head.length))} with ${argv.join(' ') || 'no other flag'}`, () => {
      const invocation = parseArguments(['--config=f', ...argv], () => Buffer.from(file))
      assert.deepEqual(invocation, {
        exitCode: 2,
        problem: sentence,
        text: `viaduct: ${sentence} (see viaduct --help)\n`,
      })
    })
  }
})

describe('docs/flags.md', () => {
  it('has a row for every flag, and no other', () => {
    const rows = readFileSync('docs/flags.md', 'utf8').matchAll(/^\| `--(?<name>[\w-]+)`/gmu)
    const documented = [...rows].map(({ groups }) => groups?.['name'])
    assert.deepEqual(documented, [...flags.map(({ name }) => name), 'version', 'help'])
  })

  it('has a row for every field of a file, and no other', () => {
    const rows = readFileSync('docs/flags.md', 'utf8').matchAll(/^\| `(?<path>[a-z][\w.]*)` \|.*\|.*\|$/gmu)
    const documented = [...rows].map(({ groups }) => groups?.['path'] ?? '')
    const config = resolveConfig({ manifests: 'm', ipvs: { runEstimation: true }, udpIdleMs: 1 })
    const documents: unknown[] = loadAll(formatConfig(config))
    const paths = documents.flatMap((document) => leavesOf('', document))
    assert.deepEqual(
      documented,
      paths.filter((path) => path !== 'apiVersion' && path !== 'kind'),
    )
  })
})

/** Paths of values that are not mappings, and of empty mappings. */
function leavesOf(path: string, value: unknown): readonly string[] {
  const isLeaf = typeof value !== 'object' || Array.isArray(value) || Object.keys(Object(value)).length === 0
  if (isLeaf) return [path]
  return Object.entries(Object(value)).flatMap(([name, inner]) =>
    leavesOf(path === '' ? name : `${path}.${name}`, inner),
  )
}
