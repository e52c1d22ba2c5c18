// The fixed rules of ipvs mode in both flavours of x_tables, as the tools of each flavour see them.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { IpFamily } from '../../src/address.js'
import { cleanUpAll } from '../../src/agent/testing.js'
import { logFamily } from '../../src/engine/index.js'
import type { Kernel, XtFlavour, XtOp } from '../../src/kernel/index.js'
import { compileChains, type FixedChain } from '../../src/layers/ipvs/testing.js'
import { setKeys, setName, setSpec } from '../../src/layers/ipvs/index.js'
import { requireFreshNamespace } from '../contract/fresh-namespace.js'
import { applyAll } from '../contract/law.js'
import { openRealKernel } from '../contract/real-kernel.js'
import { mustRun } from '../support/processes.js'
import { cidr } from '../support/routes.js'

requireFreshNamespace()

const programs = { ipv4: 'iptables', ipv6: 'ip6tables' } as const
const podNetworks = { ipv4: cidr('10.244.0.0/16'), ipv6: cidr('fd00:10:244::/64') } as const

async function makeSets({ ipset }: Kernel, family: IpFamily): Promise<void> {
  const size = { family, maxElements: 64, hashSize: 64, hasComments: false } as const
  await applyAll(
    ipset,
    setKeys.map((key) => {
      const { type, hasMarks = false } = setSpec(key)
      return { op: 'create-set', set: { ...size, name: setName(key, family), type, hasMarks } } as const
    }),
  )
}

function opOf(chain: FixedChain): XtOp {
  const { rules } = chain
  if ('hook' in chain) return { op: 'set-hook', chain: chain.hook, rules }
  return { op: 'set-chain', chain: chain.chain, rules }
}

function chainsOf(family: IpFamily): readonly FixedChain[] {
  const localDetector = { kind: 'cidr', cidr: podNetworks[family] } as const
  return compileChains({ family, masqueradeMark: 0x4000, masqueradeAll: false, localDetector })
}

/** Returns the tables that were written. */
async function write(kernel: Kernel, family: IpFamily, flavour: XtFlavour): Promise<readonly string[]> {
  const chains = chainsOf(family)
  const written: string[] = []
  for (const table of ['mangle', 'filter', 'nat'] as const) {
    const ops = chains.filter((chain) => chain.table === table).map(opOf)
    const { isWritten } = await kernel.xtables(family, table, flavour).apply(ops)
    if (isWritten) written.push(table)
  }
  return written
}

/** The rules of each chain in order. The order of the chains does not matter. */
async function saved(family: IpFamily, flavour: XtFlavour): Promise<readonly string[]> {
  const lines: string[] = []
  for (const table of ['mangle', 'filter', 'nat']) {
    const text = await mustRun([`${programs[family]}-${flavour}-save`, '-t', table])
    lines.push(...text.split('\n').flatMap((line) => (line.startsWith('-A ') ? [`${table}: ${line}`] : [])))
  }
  return lines.toSorted((a, b) => placeOf(a).localeCompare(placeOf(b)))
}

/** Table and chain of a line. */
function placeOf(line: string): string {
  return line.split(' ').slice(0, 3).join(' ')
}

for (const family of ['ipv4', 'ipv6'] as const) {
  describe(`the rules of ipvs mode, ${family}`, () => {
    it('are the same in both flavours, and a second process adopts them', async () => {
      const kernel = openRealKernel()
      await makeSets(kernel, family)
      for (const flavour of ['nft', 'legacy'] as const)
        assert.deepEqual(await write(kernel, family, flavour), ['mangle', 'filter', 'nat'])
      await kernel.close()
      const rules = await saved(family, 'nft')
      assert.equal(rules.length, chainsOf(family).flatMap((chain) => chain.rules).length)
      assert.deepEqual(rules, await saved(family, 'legacy'))
      const next = openRealKernel()
      assert.deepEqual(await write(next, family, 'nft'), [])
      await next.close()
    })

    // iptables-nft keeps comments in a match, which nft 1.1.7 does not load.
    it('are written once when iptables-nft has written them', async () => {
      const program = `${programs[family]}-nft`
      await mustRun([
        'sh',
        '-c',
        `${program}-save | (text=$(cat); printf '%s\\n' "$text" | ${program}-restore)`,
      ])
      const kernel = openRealKernel()
      assert.deepEqual(await write(kernel, family, 'nft'), ['mangle', 'filter', 'nat'])
      await kernel.close()
      const next = openRealKernel()
      assert.deepEqual(await write(next, family, 'nft'), [])
      await next.close()
    })

    it('are removed in both flavours by --cleanup, and then their sets, which nothing refers to any more', async () => {
      const kernel = openRealKernel()
      const { text, isComplete } = await cleanUpAll(kernel, [])
      const tables = ['nat', 'filter', 'mangle'].map((table) => `${logFamily(family)} ${table}`)
      const places = [...tables, ...tables.map((table) => `${table} of nf_tables`)]
      for (const place of places) assert.match(text, new RegExp(` chains from ${place}[,;]`, 'u'))
      assert.match(text, / 22 sets$/u)
      assert.equal(isComplete, true)
      assert.deepEqual(await kernel.ipset.sets(), [])
      for (const flavour of ['nft', 'legacy'] as const) assert.deepEqual(await saved(family, flavour), [])
      await kernel.close()
    })
  })
}
