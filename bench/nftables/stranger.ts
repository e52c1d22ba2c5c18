// Another program of the node with a table of its own, as firewalls have one. After its transactions the agent cannot know from the
// generation of the ruleset that its own table is the same.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Namespace } from '../../test/support/namespaces.js'

const everyMs = 10_000
const table = 'ip stranger'

/** One change of the ruleset, which leaves it as it was. */
export async function strangerActs(place: Namespace): Promise<void> {
  await place.must('nft', `add table ${table}; delete table ${table}`)
}

/** Runs `work` while the program acts again and again. */
export async function besideStranger<T>(place: Namespace, work: () => Promise<T>): Promise<T> {
  const end = new AbortController()
  const acts = (async () => {
    while (!end.signal.aborted) {
      await strangerActs(place)
      await sleep(everyMs, undefined, { signal: end.signal }).catch(() => {})
    }
  })()
  try {
    return await work()
  } finally {
    end.abort()
    await acts
  }
}
