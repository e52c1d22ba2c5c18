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
      '--proxy-mode: nftables is not in this build, which has: ipvs',
    ],
    [
      ['--manifests=m', '--ipvs-sync-period=5'],
      '--ipvs-sync-period: must be a duration such as 30s, 1m30s or 500ms, not "5"',
    ],
    [['--manifests=m', '--ipvs-sync-period', '0'], '--ipvs-sync-period: must be greater than 0'],
    [['--manifests=m', '--ipvs-sync-period', '-5s'], '--ipvs-sync-period: must be greater than 0'],
    [['--manifests=m', '--hostname-override= '], '--hostname-override: empty hostname-override is invalid'],
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
