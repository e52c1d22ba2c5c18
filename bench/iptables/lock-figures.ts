// How long a change waits for the lock of the iptables tools, beside loops that take it all the time.
import { fileURLToPath } from 'node:url'
import { Type, type Static } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { withPlace } from '../stage/place.js'

const lock = fileURLToPath(new URL('./lock.js', import.meta.url))
/** A table of some milliseconds: what is measured is the wait. */
const services = 1000
const changes = 300

const Spread = Type.Object({
  count: Type.Number(),
  medianMs: Type.Number(),
  p99Ms: Type.Number(),
  maxMs: Type.Number(),
})
const Lock = Type.Object({ failures: Type.Number(), ours: Spread, lockWait: Spread, theirs: Spread })

async function beside(loops: number): Promise<Static<typeof Lock>> {
  const args = [services, loops, changes].map(String)
  const line = await withPlace(async (place) => await place.must(process.execPath, lock, ...args))
  return Value.Parse(Lock, JSON.parse(line))
}

/** Beside four and eight loops. */
export async function lockFigures(): Promise<Record<'four' | 'eight', Static<typeof Lock>>> {
  return { four: await beside(4), eight: await beside(8) }
}
