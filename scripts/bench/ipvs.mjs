// The benchmark of ipvs mode: boots the guest, runs all programs there, prints the table, and writes out/bench/figures.json.
// Only ratios within one run are meaningful; absolute times are those of an emulated machine.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { bundleProgram } from '../bundle.mjs'
import { runGuest } from '../guest.mjs'
import { setUpGuest } from '../setup.mjs'
import { must, step } from '../steps.mjs'
import { benchFolder as folder, compileProgram } from './programs.mjs'

const limitSeconds = 1500

/** @param {number} value */
const ms = (value) => `${(value * 1000).toFixed(value < 0.01 ? 2 : 0)} ms`
/** @param {number} value */
const times = (value) => `${value.toFixed(1)}x`

/**
 * Desired objects to last acknowledgement: in a new process, and in one that has compiled its code on other services.
 * @param {string} size
 * @param {any} figures
 */
function applyRows(size, { viaduct, viaductWarm, floorOneAck }) {
  const ratio = (/** @type {{ apply: number }} */ { apply }) =>
    `${times(apply / floorOneAck)} of the C loop (<= 2.5x)`
  return [
    [`${size}: apply, in a new process`, ms(viaduct.apply), ratio(viaduct)],
    [`${size}: apply, in a warm process`, ms(viaductWarm.apply), ratio(viaductWarm)],
    ['  C loop, one message and one acknowledgement per send', ms(floorOneAck), ''],
  ]
}

/**
 * 10,000 x 10, a tenth of them with a node port: sets, rules, routes, virtual servers.
 * @param {any} figures
 */
function wholeRows({
  viaduct,
  small,
  floorBatch,
  floorRoutes,
  floorSets,
  ipvsadmRestore,
  ipsetRestore,
  ipBatch,
}) {
  const whole = viaduct.intake + viaduct.sync
  const floor = floorBatch + floorRoutes + floorSets
  const tools = ipvsadmRestore + ipsetRestore + ipBatch
  return [
    [
      '10,000 x 10 with node ports: objects to everything',
      ms(whole),
      `${viaduct.wholeMessages} messages; ${times(whole / floor)} of the C loops ${ms(floor)} (<= 2.5x)`,
    ],
    [
      '  the sync alone, after the objects are read',
      ms(viaduct.sync),
      `${times(viaduct.sync / floor)} of the C loops`,
    ],
    [
      '  ipvsadm -R, ipset restore, ip -batch',
      ms(tools),
      `${times(tools / whole)} slower than objects to everything (>= 20x), ${times(tools / viaduct.sync)} than the sync; ${ms(ipvsadmRestore)}, ${ms(ipsetRestore)}, ${ms(ipBatch)}`,
    ],
    [
      '  no-change reconcile',
      ms(viaduct.reconcile),
      `${viaduct.reconcileMessages} messages written; ${times(viaduct.reconcile / viaduct.read)} of the read (<= 2x)`,
    ],
    [
      '  one endpoint changed',
      ms(viaduct.change),
      `${viaduct.changeMessages} messages (<= 5); ${times(viaduct.change / small.change)} of that among 100 x 1`,
    ],
    [
      '  100 changes per second for 60 s: CPU per change',
      ms(viaduct.churnCpu),
      `${times(viaduct.churnCpu / small.churnCpu)} of that among 100 x 1`,
    ],
  ]
}

/** @param {any} figures */
function table(figures) {
  const { small, one, ten, ipvsadmRestore, binding } = figures
  const floorWithRoutes = one.floorOneAck + binding.floorRoutes
  const floorWithAddresses = one.floorOneAck + binding.floorAddresses
  return [
    ...applyRows('10,000 x 1', one),
    ['  C loop, batches without acknowledgements', ms(one.floorBatch), ''],
    [
      '  ipvsadm -R',
      ms(ipvsadmRestore),
      `${times(ipvsadmRestore / one.viaduct.apply)} slower, ${times(ipvsadmRestore / one.viaductWarm.apply)} warm (>= 10x)`,
    ],
    ...applyRows('10,000 x 10', ten),
    [
      '10,000 x 1: read back',
      ms(one.viaduct.read),
      `one dump per service ${ms(one.floorReadPerService)}: ${times(one.floorReadPerService / one.viaduct.read)}`,
    ],
    [
      '10,000 x 10: read back',
      ms(ten.viaduct.read),
      `one dump per service ${ms(ten.floorReadPerService)}: ${times(ten.floorReadPerService / ten.viaduct.read)} (>= 10x)`,
    ],
    [
      '10,000 x 1: no-change reconcile',
      ms(one.viaduct.reconcile),
      `${one.viaduct.reconcileMessages} messages written`,
    ],
    [
      '10,000 x 10: no-change reconcile',
      ms(ten.viaduct.reconcile),
      `${ten.viaduct.reconcileMessages} messages written; ${times(ten.viaduct.reconcile / ten.viaduct.read)} of the read`,
    ],
    ['one endpoint changed among 100 x 1', ms(small.change), `${small.changeMessages} messages`],
    [
      'one endpoint changed among 10,000 x 1',
      ms(one.viaduct.change),
      `${one.viaduct.changeMessages} messages; ${times(one.viaduct.change / small.change)} of the above`,
    ],
    [
      'one endpoint changed among 10,000 x 10',
      ms(ten.viaduct.change),
      `${ten.viaduct.changeMessages} messages`,
    ],
    [
      '10,000 x 1: objects to everything, VIPs by routes',
      ms(binding.viaductRoutes.whole),
      `C loops ${ms(floorWithRoutes)}; ipvsadm -R + ip -batch ${ms(ipvsadmRestore + binding.ipBatchRoutes)}`,
    ],
    [
      '10,000 x 1: objects to everything, VIPs by addresses',
      ms(binding.viaductAddresses.whole),
      `C loops ${ms(floorWithAddresses)}; ipvsadm -R + ip -batch ${ms(ipvsadmRestore + binding.ipBatchAddresses)}`,
    ],
    ...wholeRows(figures.whole),
  ]
}

/** NB: all programs must be compiled and bundled. */
export async function benchIpvs() {
  await setUpGuest()
  const floor = await compileProgram('floor')
  const whole = join(folder, 'ipvs-whole')
  await bundleProgram('bench/ipvs-whole.ts', whole)
  await step('Running the contenders in the guest', async () => {
    const script = `node out/ts/bench/run.js ${floor} ${join(whole, 'agent.js')} "$VIADUCT_WORK/figures.json"\n`
    const { status, output } = await runGuest({
      name: 'bench',
      script,
      timeoutSeconds: limitSeconds,
      work: folder,
    })
    if (status !== 0) throw new Error(`the benchmark ended with ${status}:\n${output}`)
  })
  const edit = await step("Editing a manifest on this machine's own kernel", async () => {
    const line = `ip link set lo up; ${process.execPath} out/ts/bench/edit.js 2>/dev/null`
    return JSON.parse(await must(['unshare', '-n', 'sh', '-ec', line]))
  })
  const figures = JSON.parse(readFileSync(join(folder, 'figures.json'), 'utf8'))
  console.log(`\nkernel ${figures.kernel} (emulated), node ${figures.node}: ratios within this run count\n`)
  for (const [what, value, note] of table(figures))
    console.log(`${what.padEnd(60)} ${value.padStart(10)}   ${note}`)
  console.log(
    `\nthis machine, IPVS modelled: a manifest renamed into place is in the kernel after ${edit.medianMs.toFixed(1)} ms`,
  )
  console.log(`(median; at most ${edit.maxMs.toFixed(1)} ms)`)
}
