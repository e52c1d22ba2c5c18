// The runs and the rows of the part `tenants`, and the targets of step 13.
import { formats } from './rows.mjs'

const { ms, percent, seconds } = formats

/** @typedef {import('./rows.mjs').Row} Row */

/** The titles of the forms of bench/nftables/tenant-forms.ts. */
const titles = {
  quiet: 'nothing',
  'clients-full': '300,000 spoofed datagrams to a Service with affinity',
  'endpoint-gone': '100,000 clients of a Service with affinity',
  'timeouts-1000': '1,000 affinity times',
  'timeouts-4000': '4,000 affinity times',
  'external-1000': '1,000 external IPs x 1,000 endpoints',
  'external-3000': '3,000 external IPs x 1,000 endpoints',
  many: '5,000 Services x 100 endpoints',
  flapping: '1,000 external IPs x 1,000, and 37 or 38 endpoints, 2 changes/s',
  'wide-1000': '1,000 ports x 100 endpoints, 19 changes/s',
  'wide-5000': '5,000 ports x 10 endpoints, 10 changes/s',
}
export const tenantForms = Object.keys(titles)
/** A lag of the 99th percentile is always as good as asked up to this one. */
const goodMs = 20

/**
 * Each form with each program.
 * @param {import('./rows.mjs').RunOptions} options
 * @returns {readonly (readonly string[])[]}
 */
export function tenantRuns({ flood, forms = tenantForms, programs, seconds: duration, scale }) {
  return forms.flatMap((form) =>
    programs.map((program) => [flood, form, program, String(duration), String(scale)]),
  )
}

/** @param {readonly any[]} runs figures of each form with each program @returns {readonly Row[]} */
export function tenantRows(runs) {
  return tenantForms.flatMap((form) => {
    const [ours, peer] = ['ours', 'kube-proxy'].map((program) =>
      runs.find((run) => run.form === form && run.program === program),
    )
    return [
      ...(ours === undefined ? [] : rowsOf(form, ours, peer)),
      ...(peer === undefined ? [] : rowsOf(`${form}, kube-proxy`, peer)),
    ]
  })
}

/**
 * @param {string} name
 * @param {any} figures
 * @param {any} [peer] figures of the other program; without targets if absent and the name says so
 * @returns {readonly Row[]}
 */
function rowsOf(name, { form, program, load, quiet, beside, inForceMs }, peer) {
  const isOurs = program === 'ours'
  const limit = Math.max(goodMs, 2 * quiet.lag.p99Ms)
  const { lag, connectUs, kept, moved, cpuSeconds } = beside
  /** @type {(target: readonly ['<=' | '>=', number]) => { target?: readonly ['<=' | '>=', number] }} */
  const asked = (target) => (isOurs ? { target } : {})
  /** @type {Row[]} */
  const rows = [
    {
      what: `${name}: lag beside ${titles[form]}`,
      value: lag.p99Ms,
      format: ms,
      ...asked(['<=', peer === undefined ? limit : Math.min(limit, peer.beside.lag.p99Ms)]),
      note:
        `p99; median ${ms(lag.medianMs)}, at most ${ms(lag.maxMs)}${lateText(lag)}; quiet ${ms(quiet.lag.medianMs)}, ` +
        `p99 ${ms(quiet.lag.p99Ms)}; CPU ${seconds(cpuSeconds)}; ${inForceText(inForceMs)}load ${load.toFixed(1)}`,
    },
  ]
  if (connectUs !== undefined)
    rows.push({
      what: `${name}: connect() against quiet`,
      value: connectUs / quiet.connectUs,
      format: times2,
      ...asked(['<=', 1.1]),
      note: `${connectUs.toFixed(1)} us by ${quiet.connectUs.toFixed(1)} us`,
    })
  if (kept !== undefined)
    rows.push({
      what: `${name}: another tenant's clients that keep their endpoint`,
      value: kept,
      format: percent,
      ...asked(['>=', quiet.kept]),
      note: `before ${percent(quiet.kept)}`,
    })
  if (moved !== undefined)
    rows.push({
      what: `${name}: until a client leaves an endpoint that is gone`,
      value: moved.maxMs,
      format: ms,
      ...asked(['<=', Math.max(goodMs, 2 * quiet.moved.maxMs)]),
      note: `at most; median ${ms(moved.medianMs)}${lateText(moved)}; quiet ${ms(quiet.moved.medianMs)}, at most ${ms(quiet.moved.maxMs)}`,
    })
  return rows
}

/** @param {number} value */
const times2 = (value) => `${value.toFixed(2)}x`

/** @param {{ readonly late: number }} lag */
function lateText({ late }) {
  return late === 0 ? '' : ` (${late} not within 60 s)`
}

/** @param {number | null} value */
function inForceText(value) {
  return value === null ? '' : `the tenants' objects in force after ${ms(value)}; `
}
