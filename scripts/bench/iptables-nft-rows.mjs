// The rows of each part of the benchmark of iptables mode on nf_tables, and the targets of step 8.

import { changeRows, connectionRows, rateRows, restartRows, spreadRow, startRows } from './nftables-rows.mjs'
import { formats } from './rows.mjs'

const { ms, percent, times, cores, count } = formats

/** @typedef {import('./rows.mjs').Row} Row */
/** @typedef {import('./rows.mjs').Part} Part */

/** @type {Readonly<Record<string, Part>>} */
export const parts = {
  start: { title: 'the agent: cold start, 10,000 x 1', rows: (figures) => startRows(figures, 1000) },
  changes: {
    title: 'the agent: changes, 10,000 x 1, from the API server',
    rows: (figures) => changeRows(figures, 60),
  },
  restart: { title: 'the agent: restart on its own rules, 10,000 x 1', rows: restartRows },
  connections: { title: 'new connections, 10,000 x 1', rows: connectionRows },
  readers: { title: 'readers of the shared tables, 10,000 x 1', rows: (figures) => readerRows(figures, 1.5) },
  'kube-proxy': { title: 'kube-proxy with iptables-nft: start and changes, 10,000 x 1', rows: peerRows },
  'kube-proxy-restart': {
    title: 'kube-proxy with iptables-nft: restart on its own rules, 10,000 x 1',
    rows: peerRestartRows,
  },
  'kube-proxy-connections': {
    title: 'kube-proxy with iptables-nft: new connections, 10,000 x 1',
    rows: peerConnectionRows,
  },
  'kube-proxy-readers': {
    title: 'kube-proxy with iptables-nft: readers of the shared tables, 10,000 x 1',
    rows: (figures) => readerRows(figures, undefined),
  },
}

/** @param {any} figures @param {number | undefined} limit @returns {readonly Row[]} */
function readerRows(figures, limit) {
  return Object.entries(figures).map(([name, { quiet, busy, busyReads, failed }]) => ({
    what: `${name}: beside 20 changes per second against quiet`,
    value: busy.medianMs / quiet.medianMs,
    format: times,
    ...(limit === undefined ? {} : { target: /** @type {const} */ (['<=', limit]) }),
    note:
      `${ms(busy.medianMs)} by ${ms(quiet.medianMs)}; at most ${ms(busy.maxMs)} by ${ms(quiet.maxMs)}; ` +
      `${busyReads} reads beside changes; ${failed} did not end`,
  }))
}

/** @param {any} figures @returns {readonly Row[]} */
function peerRows({ startMs, change, churn }) {
  return [
    { what: 'process start to first answer of the last service', value: startMs, format: ms },
    spreadRow('one endpoint replaced, event sent to first answer', change, 'medianMs'),
    { what: '20 changes per second: CPU, with its tools', value: churn.cores, format: cores },
    spreadRow('20 changes per second: lag', churn, 'medianMs'),
  ]
}

/** @param {any} figures @returns {readonly Row[]} */
function peerRestartRows({ ms: startMs, transactions }) {
  return [
    { what: 'process start to everything written', value: startMs, format: ms },
    { what: 'transactions', value: transactions, format: count },
  ]
}

/** @param {any} figures @returns {readonly Row[]} */
function peerConnectionRows({ rates, lastByFirst, podByEmpty }) {
  return [
    { what: 'to the last service against the first', value: lastByFirst, format: percent },
    {
      what: 'straight to a pod against a node without Services',
      value: podByEmpty,
      format: percent,
    },
    ...rateRows(rates),
  ]
}
