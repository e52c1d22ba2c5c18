import type { Inspected } from './inspected.js'
import { type PassSnapshot, passSnapshot } from './parts.js'
import type { Rows } from './services.js'

/** The passes that the agent still has, oldest first: some 60 per family. */
export function history({ synchronizer }: Inspected): Rows<PassSnapshot> {
  return { items: synchronizer.passes.map(passSnapshot) }
}
