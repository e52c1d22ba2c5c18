// The rows of the part `commands`, which the benchmarks of several modes have.
import { formats } from './rows.mjs'

const { ms, times } = formats

/** @typedef {import('./rows.mjs').Row} Row */

/** The targets of step 10. @param {any} figures @returns {readonly Row[]} */
export function commandRows({ quietMs, commands }) {
  return [
    { what: 'one endpoint replaced, without a command', value: quietMs, format: ms },
    ...Object.entries(commands).flatMap(([name, { ms: medianMs, maxMs, lag }]) => [
      {
        what: `${name}: time`,
        value: medianMs,
        format: ms,
        ...(name.startsWith('empty')
          ? {}
          : { target: /** @type {const} */ (['<=', name === 'status' ? 100 : 150]) }),
        note: `at most ${ms(maxMs)}`,
      },
      {
        what: `${name}: one endpoint replaced, with it in a loop`,
        value: lag,
        format: times,
        ...(name.startsWith('empty') ? {} : { target: /** @type {const} */ (['<=', 1.2]) }),
      },
    ]),
  ]
}
