// The API source on this machine: starts, events and memory of the agent up to its model, and the shipped agent over TLS.
import { writeFileSync } from 'node:fs'
import { cpus, loadavg, release } from 'node:os'
import { join } from 'node:path'
import { bundleProgram } from '../bundle.mjs'
import { runGuest } from '../guest.mjs'
import { setUpGuest } from '../setup.mjs'
import { root, step, StepError } from '../steps.mjs'
import { benchFolder, compileProgram, measurePart } from './programs.mjs'
import { formats, line } from './rows.mjs'

const { ms, us, mebibytes, percent } = formats
/** Seconds; `memory` alone makes changes for ten minutes. */
const limitSeconds = 900
const memoryMinutes = '10'

const program = join(root, 'out/ts/bench/api/run.js')

/** @typedef {import('./rows.mjs').Part} Part */

/** @type {Readonly<Record<string, Part>>} */
const parts = {
  list: { title: 'the API source: 10,000 Services, 10,000 slices of 10 endpoints, over TLS', rows: listRows },
  events: { title: 'the API source: changes of slices of 10 endpoints', rows: eventRows },
  empty: { title: 'the agent: an empty cluster, iptables mode', rows: emptyRows },
  latency: { title: 'the agent: 100 Services, iptables mode, changes one by one', rows: latencyRows },
  outages: { title: 'the agent: an API server that is killed and comes back', rows: outageRows },
  changes: { title: 'the agent: 10,000 Services, iptables mode, over TLS', rows: changeRows },
  'kube-proxy': {
    title: 'starts in turns with a kube-proxy: 10,000 Services, iptables mode, over TLS',
    rows: peerRows,
  },
  fleet: {
    title:
      'one agent of a fleet: 2,000 Services of 5 endpoints, nftables mode, default sync settings, over TLS',
    rows: fleetRows,
  },
  guest: { title: 'the agent in the guest: 100 Services, ipvs mode, changes one by one', rows: guestRows },
  memory: { title: 'the API source: 100 changes per second', rows: memoryRows },
}

/**
 * NB: all programs must be compiled and bundled.
 * @param {readonly string[]} names of parts; none: all
 */
export async function benchApi(names) {
  for (const name of names)
    if (!(name in parts)) throw new StepError(`no part ${name}, only ${Object.keys(parts).join(', ')}`)
  const connect = await compileProgram('connect')
  const follower = join(benchFolder, 'follower')
  await step('Bundling bench/api/follow.ts', () => bundleProgram('bench/api/follow.ts', follower))
  /** @type {Record<string, { load: number, figures: any }>} */
  const results = {}
  for (const name of names.length === 0 ? Object.keys(parts).filter(isReady) : names) {
    const load = loadavg()[0] ?? Number.NaN
    const figures = await step(`Measuring ${parts[name].title}`, () =>
      name === 'guest'
        ? measureInGuest(connect)
        : measurePart('api', [name, connect, join(follower, 'agent.js'), memoryMinutes], { limitSeconds }),
    )
    results[name] = { load, figures }
  }
  const machine = { kernel: release(), node: process.version, cores: cpus().length }
  const text = JSON.stringify({ ...machine, date: new Date().toISOString(), parts: results }, undefined, 2)
  writeFileSync(join(benchFolder, 'api.json'), `${text}\n`)
  for (const [name, { load, figures }] of Object.entries(results)) {
    console.log(`\n${parts[name].title} (load before: ${load.toFixed(2)})`)
    for (const row of parts[name].rows(figures)) console.log(line(row, true))
  }
}

/** Whether the part runs by default. The part that needs a kube-proxy runs only if KUBE_PROXY names one. @param {string} name */
function isReady(name) {
  return name !== 'kube-proxy' || process.env.KUBE_PROXY !== undefined
}

/** @param {string} connect @returns {Promise<any>} its figures */
async function measureInGuest(connect) {
  await setUpGuest()
  const floor = await compileProgram('floor')
  const script = `node ${program} guest ${connect} none ${floor}`
  const { status, output } = await runGuest({ name: 'bench', script, timeoutSeconds: limitSeconds })
  const figures = output.split('\n').find((text) => text.startsWith('{'))
  if (status !== 0 || figures === undefined) throw new StepError(`the guest ended with ${status}:\n${output}`)
  return JSON.parse(figures)
}

/** @param {any} figures @returns {readonly import('./rows.mjs').Row[]} */
function listRows({ ms: median, maxMs, cpuMs, rssMiB, gapMs, gapWallMs }) {
  const note = `median; at most ${ms(maxMs)}; CPU ${ms(cpuMs)}`
  return [
    { what: 'process start to listed and modelled', value: median, format: ms, target: ['<=', 900], note },
    { what: 'resident 3 s later', value: rssMiB, format: mebibytes, target: ['<=', 140] },
    {
      what: 'longest gap of the event loop until then',
      value: gapMs,
      format: ms,
      target: ['<=', 50],
      note: `with waiting for a core ${ms(gapWallMs)}`,
    },
  ]
}

/** @param {any} figures @returns {readonly import('./rows.mjs').Row[]} */
function eventRows({ followerSteady, bareSteady, followerBurst, bareBurst }) {
  return [
    {
      what: 'CPU per event, 1,000 per second',
      value: followerSteady,
      format: us,
      target: ['<=', 60],
      note: `of which ${us(bareSteady)} for a client that drops them`,
    },
    {
      what: 'CPU per event, 20,000 at once',
      value: followerBurst,
      format: us,
      target: ['<=', 60],
      note: `of which ${us(bareBurst)} for a client that drops them`,
    },
  ]
}

/** @param {any} figures @returns {readonly import('./rows.mjs').Row[]} */
function emptyRows({ ms: median, maxMs }) {
  const note = `median; at most ${ms(maxMs)}`
  return [{ what: 'process start to rules in force', value: median, format: ms, target: ['<=', 400], note }]
}

/** @param {any} figures @returns {readonly import('./rows.mjs').Row[]} */
function latencyRows({ medianMs, p99Ms, maxMs }) {
  const note = `p99 of 300; median ${ms(medianMs)}, at most ${ms(maxMs)}`
  return [
    {
      what: 'event sent to first answer of the new endpoint',
      value: p99Ms,
      format: ms,
      target: ['<=', 20],
      note,
    },
  ]
}

/** @param {any} figures @returns {readonly import('./rows.mjs').Row[]} */
function outageRows({ short, long }) {
  return [
    { seconds: 5, figures: short },
    { seconds: 20, figures: long },
  ].flatMap(({ seconds, figures: { medianMs, maxMs, perSecond } }) => [
    {
      what: `away for ${seconds} s: from its return to the first change in force`,
      value: maxMs,
      format: ms,
      target: ['<=', 5000],
      note: `the longest; median ${ms(medianMs)}`,
    },
    {
      what: `away for ${seconds} s: requests per second`,
      value: perSecond,
      format: (value) => value.toFixed(2),
      target: ['<=', 1],
    },
  ])
}

/** @param {any} figures @returns {readonly import('./rows.mjs').Row[]} */
function changeRows({ one, ten }) {
  return [...changeRowsOf('x 1', one, 60), ...changeRowsOf('x 10', ten, 200)]
}

/** @returns {readonly import('./rows.mjs').Row[]} */
function changeRowsOf(
  /** @type {string} */ size,
  /** @type {any} */ { startMs, startCpuMs, short, long },
  /** @type {number} */ limit,
) {
  return [
    {
      what: `${size}: CPU from process start to rules in force`,
      value: startCpuMs,
      format: ms,
      ...(size === 'x 1' ? { target: ['<=', 900] } : {}),
      note: `after ${ms(startMs)}`,
    },
    ...[
      { rest: '0.6 s', figures: short },
      { rest: '5 s', figures: long },
    ].map(({ rest, figures: { medianMs, maxMs, cpuMs } }) => ({
      what: `${size}: one endpoint replaced every ${rest}, event sent to first answer`,
      value: medianMs,
      format: ms,
      target: ['<=', limit],
      note: `median; at most ${ms(maxMs)}; CPU ${ms(cpuMs)}`,
    })),
  ]
}

/** @param {any} figures @returns {readonly import('./rows.mjs').Row[]} */
function peerRows({ ours, peer }) {
  return [
    {
      what: "process start to first answer of the last Service, against kube-proxy's",
      value: ours.ms / peer.ms,
      format: (value) => value.toFixed(2),
      target: ['<=', 0.65],
      note: `medians: ${ms(ours.ms)}, ${ms(peer.ms)}; CPU a second later: ${ms(ours.cpuMs)}, with its tools ${ms(peer.cpuMs)}`,
    },
  ]
}

/** @param {any} figures @returns {readonly import('./rows.mjs').Row[]} */
function fleetRows({ ours, peer }) {
  return [...fleetRowsOf('the agent', ours), ...(peer === undefined ? [] : fleetRowsOf('kube-proxy', peer))]
}

/** @returns {readonly import('./rows.mjs').Row[]} */
function fleetRowsOf(
  /** @type {string} */ who,
  /** @type {any} */ { restCpuMsPerMinute, cpuMsPerChange, javaScriptMsPerChange, changes, passes },
) {
  const isOurs = javaScriptMsPerChange !== undefined
  const split = isOurs ? `${twoDigits(javaScriptMsPerChange)} on the thread of JavaScript; ` : ''
  return [
    {
      what: `${who}: CPU per minute of rest`,
      value: restCpuMsPerMinute,
      format: ms,
      ...(isOurs ? { target: ['<=', 50] } : {}),
    },
    {
      what: `${who}: CPU per change, 20 changes per second`,
      value: cpuMsPerChange,
      format: twoDigits,
      note: `${split}${changes} changes in ${passes} passes`,
    },
  ]
}

/** @param {number} value */
function twoDigits(value) {
  return `${value.toFixed(2)} ms`
}

/** @param {any} figures @returns {readonly import('./rows.mjs').Row[]} */
function guestRows({ medianMs, p99Ms, maxMs, kernelMs, bareCallMs }) {
  const times = formats.times
  return [
    {
      what: 'event sent to first answer of the new endpoint',
      value: p99Ms,
      format: ms,
      note: `p99 of 300; median ${ms(medianMs)}, at most ${ms(maxMs)}`,
    },
    { what: 'the agent: change to last acknowledgement, on average', value: kernelMs, format: ms },
    {
      what: 'one bare call, with its acknowledgement',
      value: bareCallMs,
      format: (value) => `${value.toFixed(3)} ms`,
      note: `the agent's ${times(kernelMs / bareCallMs)}, the p99 ${times(p99Ms / bareCallMs)}`,
    },
  ]
}

/** @param {any} figures @returns {readonly import('./rows.mjs').Row[]} */
function memoryRows({ minutes, resident }) {
  const [first, ...later] = resident
  const worst = Math.max(...later.map((/** @type {number} */ size) => Math.abs(size / first - 1)))
  const note = `from ${mebibytes(first)} to ${mebibytes(later.at(-1))} in ${minutes} min`
  return [
    {
      what: 'resident memory: largest difference to the start',
      value: worst,
      format: percent,
      target: ['<=', 0.05],
      note,
    },
  ]
}
