import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import { flags, parseArguments } from '../../../src/cli/index.js'
import { resolveConfig, version, type ConfigInput } from '../../../src/config/index.js'

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
      ['--manifests=m', '--ipvs-tcp-timeout=15m', '--ipvs-tcpfin-timeout=2m', '--ipvs-udp-timeout=30s'],
      { ipvs: { tcpTimeoutMs: 900_000, tcpFinTimeoutMs: 120_000, udpTimeoutMs: 30_000 } },
    ],
    [['--manifests=m', '--ipvs-graceful-period=10m'], { ipvs: { gracefulPeriodMs: 600_000 } }],
    [['--manifests=m', '--ipvs-run-estimation=false'], { ipvs: { runEstimation: false } }],
    [['--manifests=m', '--proxy-mode=iptables'], { mode: 'iptables' }],
    [['--manifests=m', '--bind-address=192.0.2.1'], { bindAddress: '192.0.2.1' }],
    [['--manifests=m', '--iptables-masquerade-bit=0'], { iptables: { masqueradeBit: 0 } }],
    [
      ['--manifests=m', '--masquerade-all', '--iptables-localhost-nodeports=false'],
      { iptables: { masqueradeAll: true, localhostNodePorts: false } },
    ],
    [
      ['--manifests=m', '--iptables-sync-period=1m', '--iptables-min-sync-period=1s'],
      { iptables: { syncPeriodMs: 60_000, minSyncPeriodMs: 1000 } },
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
    [['--manifests=m', '--nodeport-addresses=primary'], { nodePortAddresses: ['primary'] }],
    [
      ['--manifests=m', '--nodeport-addresses=10.0.0.0/8, fd00::/8', '--nodeport-addresses=192.0.2.0/24'],
      { nodePortAddresses: ['10.0.0.0/8', 'fd00::/8', '192.0.2.0/24'] },
    ],
    [['--manifests=m', '--feature-gates='], {}],
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
    [['--manifests=m', '--logging-format=text'], { loggingFormat: 'text' }],
  ]
  for (const [argv, input] of good) {
    it(`takes ${argv.join(' ')}`, () => {
      assert.deepEqual(parseArguments(argv), { config: resolveConfig({ manifests: 'm', ...input }) })
    })
  }

  const wrong: [string[], string][] = [
    [[], '--manifests: is required: name the folder that holds the Service manifests'],
    [['--manifests'], '--manifests: needs a value (DIR)'],
    [['--manifests=m', '-v'], '-v: needs a value (LEVEL)'],
    [['--manifests=m', 'extra'], 'unexpected argument "extra": only flags are taken'],
    [['--manifests=m', '--', '--v=1'], 'unexpected argument "--v=1": only flags are taken'],
    [['--proxy-mod=ipvs'], 'unknown flag --proxy-mod; did you mean --proxy-mode?'],
    [['--proxy-mdoe', 'ipvs'], 'unknown flag --proxy-mdoe; did you mean --proxy-mode?'],
    [['-x'], 'unknown flag -x'],
    [['--zzzzzzzz'], 'unknown flag --zzzzzzzz'],
    [['--manifests=m', '--cleanup=maybe'], '--cleanup: must be true or false, not "maybe"'],
    [['--manifests=m', '-v=high'], '-v: must be a whole number from 0, not "high"'],
    [
      ['--manifests=m', '--proxy-mode=nftables'],
      '--proxy-mode: nftables is not in this build, which has: iptables, ipvs',
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
      ['--manifests=m', '--nodeport-addresses=primary,10.0.0.0/8'],
      "--nodeport-addresses: can't use both 'primary' and CIDRs",
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
    [['--manifests=m', '--feature-gates=Nope=true'], '--feature-gates: unrecognized feature gate: Nope'],
    [['--manifests=m', '--conntrack-min=-1'], '--conntrack-min: must be a whole number from 0, not "-1"'],
    [
      ['--manifests=m', '--conntrack-udp-timeout', '-1s'],
      '--conntrack-udp-timeout: must be greater than or equal to 0',
    ],
    [['--manifests=m', '--vip-binding=x'], '--vip-binding: must be routes or addresses, not "x"'],
  ]
  for (const [argv, sentence] of wrong) {
    it(`refuses ${argv.join(' ') || 'no flag at all'}`, () => {
      const text = `viaduct: ${sentence} (see viaduct --help)\n`
      assert.deepEqual(parseArguments(argv), { exitCode: 2, text })
    })
  }

  it('prints the version', () => {
    assert.deepEqual(parseArguments(['--version']), { exitCode: 0, text: `viaduct ${version}\n` })
  })

  it('lists every flag in the help', () => {
    const help = parseArguments(['--help'])
    assert.ok('text' in help && help.exitCode === 0)
    for (const { name } of flags) assert.match(help.text, new RegExp(`--${name} `, 'u'))
  })
})

describe('docs/flags.md', () => {
  it('has a row for every flag, and no other', () => {
    const rows = readFileSync('docs/flags.md', 'utf8').matchAll(/^\| `--(?<name>[\w-]+)`/gmu)
    const documented = [...rows].map(({ groups }) => groups?.['name'])
    assert.deepEqual(documented, [...flags.map(({ name }) => name), 'version', 'help'])
  })
})
