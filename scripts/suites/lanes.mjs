// Runs suites in lanes, so that suites that mainly wait run beside others.

/**
 * Starts the suites of each lane one after the other, and the lanes at the same time.
 * @template {{ readonly lane?: string }} S
 * @template T
 * @param {readonly S[]} suites those without a lane share one
 * @param {(suite: S) => Promise<T>} work must not reject
 * @returns {Map<S, Promise<T>>} the results, in the order of the suites
 */
export function runInLanes(suites, work) {
  const lastOfLane = new Map()
  const results = new Map()
  for (const suite of suites) {
    const before = lastOfLane.get(suite.lane) ?? Promise.resolve()
    const result = before.then(() => work(suite))
    lastOfLane.set(suite.lane, result)
    results.set(suite, result)
  }
  return results
}
