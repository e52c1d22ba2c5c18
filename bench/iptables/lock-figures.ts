// Measures the wait of a change for the lock of the iptables tools while loops take the lock all the time.
import { fileURLToPath } from 'node:url'
import { Type, type Static } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { withPlace } from '../stage/place.js'

const lock = fileURLToPath(new URL('./lock.js', import.meta.url))
/** A write of the table takes only some milliseconds, so that the wait dominates. */
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

/** Figures with four and with eight loops. */
export async function lockFigures(): Promise<Record<'four' | 'eight', Static<typeof Lock>>> {
  return { four: await beside(4), eight: await beside(8) }
}
