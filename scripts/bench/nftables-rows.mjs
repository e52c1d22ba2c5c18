// The rows of each part of the nftables benchmark, and the targets of step 7.

import { commandRows } from './command-rows.mjs'
import { formats } from './rows.mjs'
import { tenantRows, tenantRuns } from './tenant-rows.mjs'

const { ms, us, mebibytes, percent, times, cores, count, seconds } = formats

/** @typedef {import('./rows.mjs').Row} Row */
/** @typedef {import('./rows.mjs').Part} Part */

/** @type {Readonly<Record<string, Part>>} */
export const parts = {
  elements: { title: 'elements through the addon', rows: elementRows },
  start: { title: 'the agent: cold start, 10,000 x 1', rows: (figures) => startRows(figures, 700) },
  programs: { title: 'the agent: programs executed, 10,000 x 1', rows: programRows },
  changes: {
    title: 'the agent: changes, 10,000 x 1, from the API server',
    rows: (figures) => changeRows(figures, 10),
  },
  restart: { title: 'the agent: restart on its own rules, 10,000 x 1', rows: restartRows },
  connections: { title: 'new connections, 10,000 x 1', rows: connectionRows },
  commands: { title: 'commands from the start of their process, 10,000 x 10', rows: commandRows },
  page: { title: 'the status page in Chromium, 10,000 x 10', rows: pageRows },
  quiet: { title: 'the servers without a client, 10,000 x 10', rows: quietRows },
  sync: { title: 'first sync from desired objects, 10,000 x 10', rows: syncRows },
  curve: { title: 'one endpoint replaced, by the number of services', rows: curveRows },
  huge: { title: '10,000 x 10 and 50,000 x 20', rows: hugeRows, runs: hugeRuns },
  storm: { title: '19 changes per second of a slice of 1,000 ports x 100, beside 100 x 1', rows: stormRows },
  tenants: {
    title: 'a tenant beside hostile or large ones',
    rows: tenantRows,
    runs: tenantRuns,
  },
  'kube-proxy': { title: 'in turns with a kube-proxy in nftables mode, 1,000 x 1', rows: peerRows },
}

/** @param {{ readonly services: number, readonly reals: number }} size */
function sizeText({ services, reals }) {
  return `${services} x ${reals}`
}

/** The targets of step 10. @param {any} figures @returns {readonly Row[]} */
function pageRows({ firstMs, ms: medianMs, maxMs, memory }) {
  return [
    { what: 'first load, until the table is visible', value: firstMs, format: ms, target: ['<=', 1000] },
    {
      what: 'further loads',
      value: medianMs,
      format: ms,
      target: ['<=', 1000],
      note: `at most ${ms(maxMs)}`,
    },
    { what: 'JavaScript heap after 15 changes', value: memory.heapMiB, format: mebibytes },
    {
      what: 'private memory of the tab',
      value: memory.tabMiB,
      format: mebibytes,
      // The target is 50 MB, not MiB.
      target: ['<=', 50e6 / 2 ** 20],
      note: `a blank tab: ${mebibytes(memory.blankMiB)}`,
    },
  ]
}

/** @param {any} figures @returns {readonly Row[]} */
function quietRows({ without, with: withServers }) {
  return [
    { what: 'one endpoint replaced, without the servers', value: without.ms, format: ms },
    { what: 'one endpoint replaced, with them', value: withServers.ms, format: ms },
    { what: "the agent's CPU per change, without the servers", value: without.cpuMs, format: ms },
    { what: "the agent's CPU per change, with them", value: withServers.cpuMs, format: ms },
  ]
}

/** @param {readonly any[]} figures @returns {readonly Row[]} */
function elementRows(figures) {
  return figures.flatMap(({ size, ms: oursMs, floorMs, ratio, changeUs, systemUs, floorChangeUs }) => [
    {
      what: `${sizeText(size)}: all in one transaction, against the C program`,
      value: ratio,
      format: times,
      // Smaller ones measure the way to the worker thread and back.
      ...(size.services * size.reals >= 100_000 ? { target: /** @type {const} */ (['<=', 3]) } : {}),
      note: `${ms(oursMs)} by ${ms(floorMs)}`,
    },
    {
      what: `${sizeText(size)}: one element changed, system call of the C program`,
      value: floorChangeUs,
      format: us,
      target: /** @type {const} */ (['<=', 50]),
    },
    {
      what: `${sizeText(size)}: one element changed, system time of all threads`,
      value: systemUs,
      format: us,
      target: /** @type {const} */ (['<=', 50]),
      note: `from the call to its answer ${us(changeUs)}`,
    },
  ])
}

/** @param {any} figures @param {number} limit of a start from manifests, in ms @returns {readonly Row[]} */
export function startRows({ manifests, api }, limit) {
  return [...startRowsFrom('manifests', manifests, limit), ...startRowsFrom('the API server', api, 1000)]
}

/** @param {string} source @param {any} figures @param {number} limit @returns {readonly Row[]} */
function startRowsFrom(source, { ms: median, maxMs, cpuMs, restMiB }, limit) {
  return [
    {
      what: `from ${source}: process start to first answer of the last service`,
      value: median,
      format: ms,
      target: ['<=', limit],
      note: `median; at most ${ms(maxMs)}; CPU ${ms(cpuMs)}`,
    },
    { what: `from ${source}: resident 3 s later`, value: restMiB, format: mebibytes, target: ['<=', 110] },
  ]
}

/** @param {any} figures @returns {readonly Row[]} */
function programRows({ start, perChange }) {
  return [
    { what: 'programs executed at start', value: start, format: count, target: ['<=', 0] },
    { what: 'programs executed per change', value: perChange, format: count, target: ['<=', 0] },
  ]
}

/** @param {any} figures @param {number} lagLimit of one of 20 changes per second, in ms @returns {readonly Row[]} */
export function changeRows({ change, add, remove, churn, memory }, lagLimit) {
  const { restMiB, afterChurnMiB, peakMiB } = memory
  return [
    spreadRow('one endpoint replaced, event sent to first answer', change, 'medianMs', 5),
    spreadRow('one endpoint replaced, the same', change, 'p99Ms', 15),
    spreadRow('one service added, event sent to first answer', add, 'medianMs', 5),
    spreadRow('one service removed, event sent to first refusal', remove, 'medianMs', 5),
    { what: '20 changes per second: CPU', value: churn.cores, format: cores, target: ['<=', 0.05] },
    spreadRow('20 changes per second: lag', churn, 'medianMs', lagLimit),
    {
      what: 'resident 3 s after the start',
      value: restMiB,
      format: mebibytes,
      target: ['<=', 110],
      note: `at most ${mebibytes(peakMiB)}`,
    },
    { what: 'resident after all changes', value: afterChurnMiB, format: mebibytes, target: ['<=', 120] },
  ]
}

/**
 * @param {string} what
 * @param {any} figures
 * @param {'medianMs' | 'p99Ms'} field
 * @param {number} [limit]
 * @returns {Row}
 */
export function spreadRow(what, figures, field, limit) {
  const { medianMs, p99Ms, maxMs } = figures
  const note = `median ${ms(medianMs)}, p99 ${ms(p99Ms)}, at most ${ms(maxMs)}`
  return {
    what: `${what}, ${field === 'p99Ms' ? 'p99' : 'median'}`,
    value: figures[field],
    format: ms,
    ...(limit === undefined ? {} : { target: /** @type {const} */ (['<=', limit]) }),
    note,
  }
}

/** @param {any} figures @returns {readonly Row[]} */
export function restartRows({ ms: median, maxMs, transactions }) {
  return [
    {
      what: 'process start to everything compared',
      value: median,
      format: ms,
      target: ['<=', 1000],
      note: `median; at most ${ms(maxMs)}`,
    },
    { what: 'transactions of all restarts together', value: transactions, format: count, target: ['<=', 0] },
  ]
}

/** @param {any} figures @returns {readonly Row[]} */
export function connectionRows({ rates, lastByFirst, podByEmpty, podByBare }) {
  return [
    {
      what: 'to the last service against the first',
      value: lastByFirst,
      format: percent,
      target: ['>=', 0.95],
    },
    {
      what: 'straight to a pod against a node without Services',
      value: podByEmpty,
      format: percent,
      target: ['>=', 0.95],
      note: `against no rules at all ${percent(podByBare)}`,
    },
    ...rateRows(rates),
  ]
}

/** @param {Readonly<Record<string, any>>} rates @returns {readonly Row[]} */
export function rateRows(rates) {
  return Object.entries(rates).map(([what, { perSecond, p50Us, p99Us }]) => ({
    what: `  ${what}`,
    value: perSecond,
    format: (/** @type {number} */ value) => `${value}/s`,
    note: `connect() ${p50Us.toFixed(1)} us, p99 ${p99Us.toFixed(1)} us`,
  }))
}

/** @param {any} figures @returns {readonly Row[]} */
function syncRows({ ms: oursMs, claimMs, compileMs, userMs, systemMs, transactions, longestMs, ...others }) {
  const { floorMs, nftMs, byFloor, nftByOurs, fileMiB } = others
  return [
    {
      what: 'desired objects to the kernel, against the C program',
      value: byFloor,
      format: times,
      target: ['<=', 3],
      note:
        `${ms(oursMs)} by ${ms(floorMs)}; the claims take ${ms(claimMs)}; CPU ${ms(userMs)} and in the kernel ${ms(systemMs)}; ` +
        `not counted: compiling the routes ${ms(compileMs)}`,
    },
    {
      what: '`nft -f` of the same ruleset against ours',
      value: nftByOurs,
      format: times,
      target: ['>=', 5],
      note: `${ms(nftMs)} for ${mebibytes(fileMiB)}`,
    },
    {
      what: 'longest transaction, to its answer',
      value: longestMs,
      format: ms,
      target: ['<=', 100],
      note: `of ${count(transactions)}`,
    },
  ]
}

/** @param {readonly any[]} figures @returns {readonly Row[]} */
function curveRows(figures) {
  return figures.flatMap(({ size, first, change }) => [
    replacedRow(sizeText(size), change),
    {
      what: `${sizeText(size)}: first sync from desired objects`,
      value: first.ms,
      format: ms,
      ...(size.services === 44_000 ? { target: /** @type {const} */ (['<=', 2000]) } : {}),
      note: `CPU ${ms(first.userMs)} and in the kernel ${ms(first.systemMs)}; ${first.transactions} transactions`,
    },
  ])
}

/** @param {string} size @param {any} change @returns {Row} */
function replacedRow(size, change) {
  const { callMicroseconds, systemMicroseconds, userMicroseconds, microseconds, transactions } = change
  return {
    what: `${size}: one endpoint replaced, system call of the C program`,
    value: callMicroseconds,
    format: (value) => `${value.toFixed(1)} us`,
    target: ['<=', 50],
    note:
      `ours: claim to answer ${us(microseconds)}, system time of all threads ${us(systemMicroseconds)}, ` +
      `user time ${us(userMicroseconds)}, ${transactions} transactions`,
  }
}

/** @param {import('./rows.mjs').RunOptions} options */
function hugeRuns({ scale }) {
  return ['tables', '100000', '1000000'].map((what) => [String(scale), what])
}

/** @param {readonly any[]} runs @returns {readonly Row[]} */
function hugeRows([{ size, first, change }, ...adoptions]) {
  return [
    {
      what: `${sizeText(size)}: first sync from desired objects`,
      value: first.ms,
      format: ms,
      note: `${first.transactions} transactions, the longest ${ms(first.longestMs)}; resident ${mebibytes(first.rssMiB)}`,
    },
    replacedRow(sizeText(size), change),
    ...adoptions.flatMap(adoptionRows),
  ]
}

/** The targets of step 13. @param {any} figures @returns {readonly Row[]} */
function adoptionRows({ size, first, restart, restartTransactions, periodCpuMs, lag, kernelMiB }) {
  const what = sizeText(size)
  const limitMs = size.services * size.reals > 100_000 ? 5000 : 600
  return [
    {
      what: `${what}: the agent from the API server: process start to in force`,
      value: first.ms,
      format: ms,
      note: `CPU ${ms(first.cpuMs)}`,
    },
    {
      what: `${what}: adoption at a restart, the agent's first pass`,
      value: restart.passMs,
      format: ms,
      target: ['<=', limitMs],
      note: `from the process start ${ms(restart.ms)}, CPU ${ms(restart.cpuMs)}; ${restartTransactions} transactions`,
    },
    {
      what: `${what}: CPU of a sync period that compares everything`,
      value: periodCpuMs.compared,
      format: ms,
      note: `of a quiet one ${ms(periodCpuMs.quiet)}`,
    },
    spreadRow(`${what}: lag of 4 changes per second beside comparisons`, lag, 'p99Ms', 20),
    {
      what: `${what}: resident 3 s after the start`,
      value: first.restMiB,
      format: mebibytes,
      note: `at most ${mebibytes(first.peakMiB)}; after the restart ${mebibytes(restart.restMiB)}, at most ${mebibytes(restart.peakMiB)}`,
    },
    { what: `${what}: memory of the kernel`, value: kernelMiB, format: mebibytes },
  ]
}

/** @param {any} figures @returns {readonly Row[]} */
function stormRows({ quietMs, medianMs, maxMs, afterMs, cpuSeconds }) {
  return [
    { what: "another Service's change before, event sent to first answer", value: quietMs, format: ms },
    { what: 'during 30 s of them', value: medianMs, format: ms, note: `median; at most ${ms(maxMs)}` },
    { what: 'at their end', value: afterMs, format: ms, target: ['<=', 2300] },
    { what: "the agent's CPU until then", value: cpuSeconds, format: seconds },
  ]
}

/** @param {any} figures @returns {readonly Row[]} */
function peerRows({ ours, peer }) {
  return [
    { what: 'process start to first answer of the last service', field: 'start' },
    { what: 'one endpoint replaced, event sent to first answer', field: 'change' },
  ].map(({ what, field }) => {
    const [oursMs, peerMs] = [ours[`${field}Ms`], peer[`${field}Ms`]]
    const cpu = `CPU ${ms(ours[`${field}CpuMs`])}, with its tools ${ms(peer[`${field}CpuMs`])}`
    const note = `${ms(oursMs)} by ${ms(peerMs)}; ${cpu}`
    return { what: `${what}: kube-proxy against ours`, value: peerMs / oursMs, format: times, note }
  })
}
