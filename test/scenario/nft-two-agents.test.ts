// Two agents beside each other, as during an upgrade.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { ConfigInput } from '../../src/config/index.js'
import { openModelKernel } from '../model/index.js'
import { settle } from '../support/manual-clock.js'
import { endpointsOf, NftModeLab, type NftModeLabOptions, nftLines } from '../support/nft-mode-lab.js'
import { service, set, slice, synced } from '../support/objects.js'

const vip = '10.96.0.1'
const web = [set(service('web', vip)), set(slice('web-1', 'web', ['10.1.0.1']))]
const fewer = web.slice(1)
const more = [set(slice('web-1', 'web', ['10.1.0.1', '10.1.0.2']))]
const moved = set(slice('web-1', 'web', ['10.1.0.2']))
const repaired = 'Kernel state differs and is repaired'

interface Pair {
  readonly former: NftModeLab
  readonly next: NftModeLab
}

/** The next one starts while the former one runs. `objects`: those of the next one. */
async function start(
  mode: NftModeLabOptions['mode'] & string,
  config: ConfigInput,
  {
    objects = web,
    formerConfig = {},
  }: { readonly objects?: typeof web; readonly formerConfig?: ConfigInput } = {},
): Promise<Pair> {
  const former = new NftModeLab({ mode, config: formerConfig })
  await former.deliver(...web, synced)
  const kernel = openModelKernel({ nftNamespace: former.namespace })
  const next = new NftModeLab({ mode, kernel, config })
  await next.deliver(...objects, synced)
  return { former, next }
}

async function wait(labs: readonly NftModeLab[], seconds: number): Promise<void> {
  for (let step = 0; step < seconds * 10; step++) {
    for (const lab of labs) await lab.clock.advance(100)
    await settle()
  }
}

function repairsOf(...labs: readonly NftModeLab[]): readonly object[] {
  return labs
    .flatMap((lab) => lab.log.find('info', repaired))
    .map(({ fields }) => fields)
    .filter(({ table }) => table === 'kube-proxy')
}

/** The tables of an agent that is alone. */
async function linesOfOne(
  mode: NftModeLabOptions['mode'] & string,
  config: ConfigInput,
): Promise<readonly string[]> {
  const alone = new NftModeLab({ mode, config })
  await alone.deliver(...web, synced)
  await alone.deliver(moved)
  await wait([alone], 1)
  await alone.stop()
  return nftLines(alone.namespace)
}

for (const mode of ['nftables', 'iptables'] as const) {
  describe(`two agents with the same rules: ${mode} mode`, () => {
    it('rest, and neither repairs the other', async () => {
      const { former, next } = await start(mode, {})
      const lines = nftLines(former.namespace)
      const writes = former.writes + next.writes
      await wait([former, next], 90)
      assert.equal(former.writes + next.writes, writes)
      assert.deepEqual(nftLines(former.namespace), lines)
      // If both make a chain at the same moment, it has each rule twice: that is repaired.
      for (const change of [more, fewer]) {
        await Promise.all([former, next].map(async (lab) => await lab.deliver(...change)))
        await wait([former, next], 2)
      }
      // Before, the chains for two endpoints, which one removed in its comparison, were made again by the other one, without end.
      const repairs = repairsOf(former, next).length
      await wait([former, next], 180)
      assert.equal(repairsOf(former, next).length, repairs)
      assert.deepEqual(endpointsOf(next, vip), ['10.1.0.1'])
      await former.stop()
      await next.stop()
    })
  })

  describe(`two agents with other rules: ${mode} mode`, () => {
    // Before, each repaired its rules twice a second, without end, and nothing named the other.
    it('are named once, and repair every 5 s at most until one ends', async () => {
      const { former, next } = await start(mode, { [mode]: { masqueradeBit: 20 } })
      await wait([former, next], 8)
      // The agent that names the other one first rests, and the other one may see no series any more.
      const named = [former, next].map((lab) =>
        lab.log
          .find('warn', 'Another agent is running')
          .flatMap(
            ({ message }) => / writes other rules into (\w+) kube-proxy /u.exec(message)?.[1] ?? message,
          ),
      )
      for (const families of named) assert.deepEqual(families, [...new Set(families)])
      assert.deepEqual([...new Set(named.flat())].toSorted(), ['IPv4', 'IPv6'])
      const before = repairsOf(former, next).length
      await wait([former, next], 60)
      const repairs = repairsOf(former, next).length - before
      assert.ok(repairs > 0 && repairs <= 2 * 2 * 12, String(repairs))
      // Each serves a change at once, whichever rules are in force.
      await former.deliver(moved)
      await next.deliver(moved)
      await settle()
      assert.deepEqual(endpointsOf(next, vip), ['10.1.0.2'])
      await former.stop()
      await wait([next], 16)
      assert.deepEqual(nftLines(next.namespace), await linesOfOne(mode, { [mode]: { masqueradeBit: 20 } }))
      const warnings = next.log.find('warn', 'Another agent is running')
      assert.equal(next.log.find('info', 'No other agent is running any more').length, warnings.length)
      assert.deepEqual(warnings.length, named[1]?.length)
      await next.stop()
    })
  })
  const others = [
    { name: 'other endpoints', objects: [web[0], moved].filter((each) => each !== undefined) },
    {
      name: 'other Services',
      objects: [set(service('api', '10.96.0.2')), set(slice('api-1', 'api', ['10.1.0.1']))],
    },
  ]
  for (const { name, objects } of others)
    // Before, only other rules were a sign: nothing named an agent whose elements alone differ.
    it(`two agents with ${name} are named, and repair every 5 s at most: ${mode} mode`, async () => {
      const { former, next } = await start(mode, {}, { objects })
      await wait([former, next], 8)
      for (const lab of [former, next]) {
        const [warning] = lab.log.find('warn', 'Another agent is running')
        assert.match(warning?.message ?? '', / writes other elements into IPv4 kube-proxy /u)
      }
      const before = repairsOf(former, next).length
      await wait([former, next], 60)
      const repairs = repairsOf(former, next).length - before
      assert.ok(repairs > 0 && repairs <= 2 * 12, String(repairs))
      await former.stop()
      await next.stop()
    })

  // Before, repairs more than 2 s apart were no series: nothing named the other agent.
  it(`two agents that sync every 5 s at most are named: ${mode} mode`, async () => {
    const rare = { [mode]: { minSyncPeriodMs: 5000 } }
    const { former, next } = await start(
      mode,
      { [mode]: { minSyncPeriodMs: 5000, masqueradeBit: 20 } },
      { formerConfig: rare },
    )
    await wait([former, next], 30)
    for (const lab of [former, next]) assert.equal(lab.log.find('warn', 'Another agent is running').length, 2)
    await former.stop()
    await next.stop()
  })
}
