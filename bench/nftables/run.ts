// Measures one part of nftables mode on this machine's own kernel, in network namespaces, and prints the figures as one JSON line:
//   node run.js PART CONNECT_BINARY FLOOR_BINARY
//   node run.js huge CONNECT_BINARY FLOOR_BINARY SCALE tables|100000|1000000
//   node run.js tenants CONNECT_BINARY FLOOR_BINARY FLOOD_BINARY FORM PROGRAM SECONDS SCALE
// FLOOR_BINARY is the program of bench/floor/nft_floor.c. Everything that it writes is under TMPDIR.
import { changeFigures, restartFigures, startFigures } from './agent-figures.js'
import { connectionFigures } from './connections.js'
import { adoptionFigures } from './huge-figures.js'
import { pageFigures, quietFigures } from './page-figures.js'
import { peerFigures } from './peer-figures.js'
import { startAgent } from '../api/stage.js'
import { stormFigures } from '../api/storm.js'
import { curveFigures, elementFigures, firstSyncFigures, hugeSyncFigures } from './sync-figures.js'
import type { AgentMode } from '../stage/agent-run.js'
import type { Size } from '../stage/manifests.js'
import { commandFigures } from '../stage/command-figures.js'
import { executedPrograms } from '../stage/executed-programs.js'
import { useNiceness } from '../stage/niceness.js'
import { tenantFigures, tenantSetting } from './tenants.js'

const [part = '', connect = '', floor = '', ...rest] = process.argv.slice(2)
const agent: AgentMode = { mode: 'nftables' }
const whole = { services: 10_000, reals: 1 }
const ten = { services: 10_000, reals: 10 }
const few = { services: 100, reals: 1 }
const many = { services: 50_000, reals: 1 }
const more = { services: 44_000, reals: 1 }
const huge = { services: 50_000, reals: 20 }
/** 10,000 take kube-proxy a minute. */
const peerSize = { services: 1000, reals: 1 }
const curveChanges = 3000

/** A share of the Services, for the part `huge`. */
function scaled({ services, reals }: Size, scale = '1'): Size {
  return { services: Math.max(1, Math.round(services * Number(scale))), reals }
}

/** scripts/bench/nftables-rows.mjs has a row for every figure that counts. */
const parts: Readonly<Record<string, () => Promise<unknown>>> = {
  elements: async () => await elementFigures(floor, [ten, few, whole, many]),
  start: async () => await startFigures({ agent, connect, size: whole }),
  programs: async () => await executedPrograms({ mode: 'nftables', connect, size: whole }),
  changes: async () => await changeFigures({ agent, connect, size: whole }),
  restart: async () => await restartFigures({ agent, size: whole }),
  connections: async () => await connectionFigures({ agent, connect, size: whole }),
  commands: async () => await commandFigures({ mode: 'nftables', connect, size: ten }),
  page: async () => await pageFigures({ mode: 'nftables', connect, size: ten }),
  quiet: async () => await quietFigures({ mode: 'nftables', connect, size: ten }),
  sync: async () => await firstSyncFigures(floor, ten),
  curve: async () => await curveFigures(floor, [few, whole, more, many], curveChanges),
  huge: async () => {
    const [scale, what] = rest
    if (what === 'tables') return await hugeSyncFigures(floor, scaled(huge, scale))
    return await adoptionFigures(connect, scaled(what === '100000' ? ten : huge, scale))
  },
  storm: async () =>
    await stormFigures((place, api) => startAgent(place, api, { ...agent, verbosity: 0 }), {
      connect,
      size: few,
      tenant: 'wide 1000 100',
    }),
  tenants: async () => await tenantFigures({ connect, ...tenantSetting(rest) }),
  'kube-proxy': async () => await peerFigures(connect, peerSize),
}

useNiceness()
const measure = parts[part]
if (measure === undefined) throw new Error(`no part ${part}, only ${Object.keys(parts).join(' ')}`)
process.stdout.write(`${JSON.stringify(await measure())}\n`)
