// Scheduler annotations of a Service, and the resulting virtual server.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { resolveConfig, type ConfigInput } from '../../../../src/config/index.js'
import { unmetRequests, type SchedulingSettings } from '../../../../src/modes/ipvs/testing.js'
import { realServersFor, virtualServerSettings } from '../../../../src/modes/ipvs/compile/server-settings.js'
import type { Route } from '../../../../src/routing/index.js'
import { backends, ip, plainRoute } from '../../../support/routes.js'

type Request = Route['scheduling']

function settings(ipvs: ConfigInput['ipvs'] = {}, missing: readonly string[] = []): SchedulingSettings {
  return { ...resolveConfig({ manifests: 'none', ipvs }).ipvs, missing: new Set(missing) }
}

interface Case {
  readonly name: string
  readonly request: Request
  /** Default: rr, and a kernel with all schedulers. */
  readonly from?: SchedulingSettings
  readonly scheduler: string
  readonly flags?: number
  /** One pattern for each reported problem. */
  readonly unmet?: readonly RegExp[]
}

describe('the scheduler of a Service', () => {
  const mh = settings({ scheduler: 'mh', schedulerFlags: ['mh-fallback'] })
  const cases: readonly Case[] = [
    { name: 'is the default without annotations', request: {}, scheduler: 'rr' },
    { name: 'is the default with its flags', request: {}, from: mh, scheduler: 'mh', flags: 0x8 },
    { name: 'is that of the annotation', request: { scheduler: 'wlc' }, from: mh, scheduler: 'wlc' },
    {
      name: 'mh hashes the port by default',
      request: { scheduler: 'mh' },
      from: mh,
      scheduler: 'mh',
      flags: 0x10,
    },
    {
      name: 'is that of the annotation, with its flags',
      request: { scheduler: 'sh', schedulerFlags: 'sh-port, sh-fallback' },
      scheduler: 'sh',
      flags: 0x18,
    },
    {
      name: 'has no flags with the annotation none',
      request: { scheduler: 'mh', schedulerFlags: 'none' },
      scheduler: 'mh',
    },
    {
      name: 'is the default with the flags of the annotation',
      request: { schedulerFlags: 'mh-port' },
      from: mh,
      scheduler: 'mh',
      flags: 0x10,
    },
    {
      name: 'refuses an invalid name',
      request: { scheduler: 'a scheduler' },
      scheduler: 'rr',
      unmet: [/^scheduler must be a scheduler .*"a scheduler"; this Service uses rr$/],
    },
    {
      name: 'refuses an empty name',
      request: { scheduler: '' },
      scheduler: 'rr',
      unmet: [/^scheduler must be/],
    },
    {
      name: 'is the default if the kernel lacks that of the annotation',
      request: { scheduler: 'wlc', schedulerFlags: 'mh-port' },
      from: { ...mh, missing: new Set(['wlc']) },
      scheduler: 'mh',
      flags: 0x8,
      unmet: [/^scheduler .*no scheduler "wlc": load the module ip_vs_wlc; .* uses mh with mh-fallback$/],
    },
    {
      name: "refuses another scheduler's flag",
      request: { scheduler: 'mh', schedulerFlags: 'sh-port' },
      scheduler: 'mh',
      flags: 0x10,
      unmet: [/^schedulerFlags "sh-port" is no flag of the scheduler mh.* uses mh with mh-port$/],
    },
    {
      name: 'refuses a flag that the default scheduler does not have',
      request: { schedulerFlags: '' },
      scheduler: 'rr',
      unmet: [/^schedulerFlags "" is no flag of the scheduler rr, which has none; this Service uses rr$/],
    },
  ]
  for (const { name, request, from = settings(), scheduler, flags = 0, unmet = [] } of cases) {
    it(name, () => {
      const route = plainRoute({ scheduling: request })
      const got = virtualServerSettings(route, from)
      assert.deepEqual([got.scheduler, got.flags], [scheduler, flags])
      const problems = unmetRequests(route, from).map(({ request: field, problem }) => `${field} ${problem}`)
      assert.equal(problems.length, unmet.length, problems.join('\n'))
      for (const [index, words] of unmet.entries()) assert.match(problems[index] ?? '', words)
    })
  }

  it('can be combined with session affinity', () => {
    const route = plainRoute({ scheduling: { scheduler: 'mh' }, affinitySeconds: 60 })
    const { flags, timeoutSeconds } = virtualServerSettings(route, settings())
    assert.deepEqual([flags, timeoutSeconds], [0x11, 60])
  })
})

describe('the weights of backends', () => {
  const clusterBackends = backends(80, '10.1.0.1', '10.1.0.2', '10.1.0.3')
  const backendNodes = new Map([
    [ip('10.1.0.1'), 'node-a'],
    [ip('10.1.0.2'), 'node-b'],
  ])
  const bad = /^weights must be written NODE=WEIGHT.*; every backend weighs 1$/
  const cases: readonly {
    readonly text: string | undefined
    readonly weights: readonly number[]
    readonly unmet?: RegExp
    readonly scheduler?: string
  }[] = [
    { text: undefined, weights: [1, 1, 1] },
    { text: 'node-b=65535', weights: [1, 65_535, 1] },
    { text: ' node-a=3 , node-b=2', weights: [3, 2, 1] },
    { text: 'node-z=9', weights: [1, 1, 1] },
    { text: 'node-a=0', weights: [1, 1, 1], unmet: bad },
    { text: 'node-a=65536', weights: [1, 1, 1], unmet: bad },
    { text: 'node-a=1.5', weights: [1, 1, 1], unmet: bad },
    { text: 'node-a', weights: [1, 1, 1], unmet: bad },
    { text: '', weights: [1, 1, 1], unmet: bad },
    { text: 'node-a=1,node-a=2', weights: [1, 1, 1], unmet: bad },
    { text: 'node-a=2,', weights: [1, 1, 1], unmet: bad },
    { text: 'node-a=2', scheduler: 'rr', weights: [2, 1, 1], unmet: /^weights has no effect: .* rr / },
  ]
  for (const { text, weights, unmet, scheduler = 'wrr' } of cases) {
    it(`are those of "${text ?? ''}" with ${scheduler}`, () => {
      const route = plainRoute({ scheduling: { scheduler, weights: text }, clusterBackends, backendNodes })
      const reals = realServersFor(route, clusterBackends)
      assert.deepEqual(
        Array.from(reals, ({ settings: { weight } }) => weight),
        weights,
      )
      const [problem] = unmetRequests(route, settings())
      if (unmet === undefined) assert.equal(problem, undefined)
      else assert.match(`${problem?.request} ${problem?.problem}`, unmet)
    })
  }
})
