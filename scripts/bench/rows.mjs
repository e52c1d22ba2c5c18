// Prints the figures of a benchmark with their targets.

/**
 * @typedef {object} Row
 * @property {string} what
 * @property {number} value
 * @property {(value: number) => string} format
 * @property {readonly ['<=' | '>=', number]} [target]
 * @property {string} [note]
 */
/**
 * @typedef {object} Part
 * @property {string} title
 * @property {(figures: any) => readonly Row[]} rows of the figures; if it has `runs`, of a list of them
 * @property {(options: RunOptions) => readonly (readonly string[])[]} [runs] further arguments of each run; default: one without them
 */
/** @typedef {{ readonly scale: number, readonly seconds: number, readonly forms?: readonly string[], readonly programs: readonly string[], readonly flood: string }} RunOptions */

export const formats = {
  /** @param {number} value */
  ms: (value) => `${value.toFixed(value < 10 ? 1 : 0)} ms`,
  /** @param {number} value */
  seconds: (value) => `${value.toFixed(1)} s`,
  /** @param {number} value */
  us: (value) => `${value.toFixed(0)} us`,
  /** @param {number} value */
  mebibytes: (value) => `${value.toFixed(0)} MiB`,
  /** @param {number} value */
  percent: (value) => `${(value * 100).toFixed(1)} %`,
  /** @param {number} value */
  times: (value) => `${value.toFixed(1)}x`,
  /** @param {number} value */
  cores: (value) => `${value.toFixed(2)} cores`,
  /** @param {number} value */
  count: (value) => String(Math.round(value)),
}

/**
 * @param {Row} row
 * @param {boolean} hasTargets whether the targets apply to this size
 */
export function line({ what, value, format, target, note = '' }, hasTargets) {
  const figure = `  ${what.padEnd(64)} ${format(value).padStart(10)}`
  if (target === undefined || !hasTargets) return `${figure}   ${note}`.trimEnd()
  const [sign, limit] = target
  const isMet = sign === '<=' ? value <= limit : value >= limit
  return `${figure}   ${`${sign} ${format(limit)}`.padEnd(12)} ${isMet ? 'met' : 'NOT MET'}   ${note}`.trimEnd()
}
