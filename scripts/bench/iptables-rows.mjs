// The rows of each part of the iptables benchmark, and the targets of step 2.

import { commandRows } from './command-rows.mjs'
import { formats } from './rows.mjs'

const { ms, us, mebibytes, percent, times, cores, count } = formats

/** @typedef {import('./rows.mjs').Row} Row */
/** @typedef {import('./rows.mjs').Part} Part */

/** @type {Readonly<Record<string, Part>>} */
export const parts = {
  agent: { title: 'the agent: start and change', rows: agentRows },
  churn: { title: 'the agent: 20 changes per second, memory', rows: churnRows },
  programs: { title: 'the agent: programs executed', rows: programRows },
  loop: { title: 'the agent: longest gap of the event loop', rows: loopRows },
  floods: { title: 'the agent: floods of HTTP requests', rows: floodRows },
  commit: { title: 'desired objects to the kernel', rows: commitRows },
  lock: { title: 'changes beside loops of iptables -w', rows: lockRows },
  connections: { title: 'new connections', rows: connectionRows },
  commands: { title: 'commands from the start of their process', rows: commandRows },
}

/** @param {any} figures */
function agentRows({ one, ten }) {
  return [
    coldRow('x 1: process start to first answer of the last service', one, 800),
    coldRow('x 10: the same', ten, 2000),
    changeRow('x 1: one endpoint replaced, rename to first answer', one.replace, 75),
    changeRow('x 1: one endpoint added', one.add, 75),
    changeRow('x 10: one endpoint replaced', ten.replace, 250),
    changeRow('x 10: one endpoint added', ten.add, 250),
  ]
}

/**
 * @param {string} what
 * @param {any} figures
 * @param {number} limit
 * @returns {Row}
 */
function coldRow(what, { coldMs, coldMaxMs, coldCpuSeconds }, limit) {
  const note = `median; at most ${ms(coldMaxMs)}; CPU ${ms(coldCpuSeconds * 1000)}`
  return { what, value: coldMs, format: ms, target: ['<=', limit], note }
}

/**
 * @param {string} what
 * @param {any} figures
 * @param {number} limit
 * @returns {Row}
 */
function changeRow(what, { medianMs, maxMs }, limit) {
  return { what, value: medianMs, format: ms, target: ['<=', limit], note: `median; at most ${ms(maxMs)}` }
}

/**
 * @param {any} figures
 * @returns {readonly Row[]}
 */
function churnRows({ cores: used, medianLagMs, maxLagMs, restMiB, peakMiB }) {
  const afterChurn = `after the changes ${mebibytes(restMiB.afterChurn)}`
  const peak = `at most ${mebibytes(peakMiB.cold)} at start, ${mebibytes(peakMiB.afterChurn)} later`
  return [
    { what: 'x 1: CPU', value: used, format: cores, target: ['<=', 0.4] },
    {
      what: 'x 1: lag of a change',
      value: medianLagMs,
      format: ms,
      target: ['<=', 300],
      note: `median; at most ${ms(maxLagMs)}`,
    },
    {
      what: 'x 1: resident 3 s after the first answer',
      value: restMiB.soon,
      format: mebibytes,
      target: ['<=', 120],
      note: peak,
    },
    {
      what: 'x 1: resident 45 s after the first answer',
      value: restMiB.late,
      format: mebibytes,
      target: ['<=', 120],
      note: afterChurn,
    },
  ]
}

/**
 * @param {any} figures
 * @returns {readonly Row[]}
 */
function programRows({ start, perChange }) {
  return [
    { what: 'x 1: programs executed at start', value: start, format: count, target: ['<=', 0] },
    { what: 'x 1: programs executed per change', value: perChange, format: count, target: ['<=', 0] },
  ]
}

/**
 * @param {any} figures
 * @returns {readonly Row[]}
 */
function loopRows(figures) {
  return ['one', 'ten'].flatMap((size) => {
    const label = size === 'one' ? 'x 1' : 'x 10'
    const { cold, change, idle, loadMs } = figures[size]
    const loading = `; not counted: loading the program, ${ms(loadMs)}`
    return [
      gapRow(`${label}: cold start`, cold, loading),
      gapRow(`${label}: endpoints replaced, added`, change),
      gapRow(`${label}: idle, a full comparison every 3 s`, idle),
    ]
  })
}

/**
 * @param {string} what
 * @param {{ readonly ms: number, readonly wallMs: number }} gap `ms` without waiting for a core of the machine
 * @param {string} [more]
 * @returns {Row}
 */
function gapRow(what, gap, more = '') {
  const note = `with waiting for a core ${ms(gap.wallMs)}${more}`
  return { what, value: gap.ms, format: ms, target: ['<=', 20], note }
}

/**
 * @param {any} figures
 * @returns {readonly Row[]}
 */
function floodRows({ quiet, floods, restMiB, stopMs }) {
  return [
    ...Object.entries(floods).flatMap(([name, figures]) => [
      floodRow(`${name}: one endpoint replaced, p99 against quiet`, figures, quiet),
      {
        what: `${name}: probes of /livez without an answer within 1 s`,
        value: figures.lostProbes,
        format: count,
        target: ['<=', 0],
        note: `of ${figures.probes}; slowest ${ms(figures.slowestProbeMs)}; resident ${mebibytes(figures.restMiB)}`,
      },
    ]),
    {
      what: 'resident one minute after the last flood',
      value: restMiB.after - restMiB.before,
      format: mebibytes,
      target: ['<=', 20],
      note: `more than before, the changes included: ${mebibytes(restMiB.before)}`,
    },
    { what: 'SIGTERM to the end, in a flood', value: stopMs, format: ms, target: ['<=', 2000] },
  ]
}

/**
 * @param {string} what
 * @param {any} figures
 * @param {any} quiet
 * @returns {Row}
 */
function floodRow(what, { p99Ms, medianMs, cores: used }, quiet) {
  const note = `${ms(p99Ms)} by ${ms(quiet.p99Ms)}; median ${ms(medianMs)} by ${ms(quiet.medianMs)}; ${cores(used)}`
  return { what, value: p99Ms / quiet.p99Ms, format: times, target: ['<=', 2], note }
}

/**
 * @param {any} figures
 * @returns {readonly Row[]}
 */
function commitRows({ one, ten }) {
  const { first, change, resize, tool, checkUs, compareMs, compareGap, entries, bytes } = ten
  return [
    ratioRow('x 1: first commit, iptables-legacy-restore against ours', one.tool.firstMs, one.first),
    ratioRow('x 1: one endpoint replaced, restoring one chain against ours', one.tool.oneChainMs, one.change),
    ratioRow('x 1: one endpoint added or removed', one.tool.oneChainMs, one.resize),
    {
      ...ratioRow('x 10: first commit, iptables-legacy-restore against ours', tool.firstMs, first),
      target: ['>=', 8],
    },
    {
      ...ratioRow('x 10: one endpoint replaced, restoring one chain against ours', tool.oneChainMs, change),
      target: ['>=', 6],
    },
    { ...ratioRow('x 10: one endpoint added or removed', tool.oneChainMs, resize), target: ['>=', 6] },
    { what: 'x 10: look for a change', value: checkUs, format: us, target: ['<=', 1000] },
    {
      what: 'x 10: full comparison',
      value: compareMs,
      format: ms,
      note: `${entries} entries, ${(bytes / 1e6).toFixed(1)} MB`,
    },
    gapRow('x 10: longest gap of the event loop meanwhile', compareGap),
  ]
}

/**
 * @param {string} what
 * @param {number} toolMs
 * @param {Readonly<Record<string, number>>} ours milliseconds by phase, and `total`
 * @returns {Row}
 */
function ratioRow(what, toolMs, { total, ...phases }) {
  const shares = Object.entries(phases)
    .filter(([, value]) => value >= 0.05)
    .map(([phase, value]) => `${phase} ${value.toFixed(value < 10 ? 1 : 0)}`)
  const note = `${ms(toolMs)} by ${ms(total)} (${shares.join(', ')})`
  return { what, value: toolMs / total, format: times, note }
}

/**
 * @param {any} figures
 * @returns {readonly Row[]}
 */
function lockRows({ four, eight }) {
  return [lockRow('four', four), lockRow('eight', eight)]
}

/**
 * @param {string} loops
 * @param {any} figures
 * @returns {Row}
 */
function lockRow(loops, { failures, ours, lockWait, theirs }) {
  const note =
    `median ${ms(ours.medianMs)}, including the lock with ${ms(lockWait.medianMs)}; ${failures} failed; ` +
    `theirs: median ${ms(theirs.medianMs)}, p99 ${ms(theirs.p99Ms)}, at most ${ms(theirs.maxMs)}`
  return {
    what: `one chain changed beside ${loops} loops, p99`,
    value: ours.p99Ms,
    format: ms,
    target: ['<=', 300],
    note,
  }
}

/**
 * @param {any} figures
 * @returns {readonly Row[]}
 */
function connectionRows({ rates, lastByFirst, podByEmpty, podByBare, ...kubeProxy }) {
  return [
    {
      what: 'x 1: to the last service against the first',
      value: lastByFirst,
      format: percent,
      target: ['>=', 0.9],
      note: `kube-proxy's rules ${percent(kubeProxy.kubeProxyLastByFirst)}`,
    },
    {
      what: 'x 1: straight to a pod against a node without services',
      value: podByEmpty,
      format: percent,
      target: ['>=', 0.95],
      note: `kube-proxy's rules ${percent(kubeProxy.kubeProxyPodByEmpty)}; against no rules at all ${percent(podByBare)}`,
    },
    ...Object.entries(rates).map(([what, { perSecond, p50Us, p99Us }]) => ({
      what: `  ${what}`,
      value: perSecond,
      format: (/** @type {number} */ value) => `${value}/s`,
      note: `connect() ${p50Us.toFixed(1)} us, p99 ${p99Us.toFixed(1)} us`,
    })),
  ]
}
