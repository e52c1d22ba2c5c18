import type { CleanUpOptions, Mode } from '../engine/index.js'
import { OtherFlavour } from '../host/index.js'
import type { Log } from '../log.js'
import { leavingOthers } from './modes.js'

/**
 * Returns the work that the agent does on the node besides Services: it removes the leftovers of other modes, until nothing is left,
 * and looks for conflicts with rules in the other flavour of x_tables. Resolves with false if it is to be called again after a sync period.
 */
export function tendingNode(
  mode: Pick<Mode, 'name' | 'flavour' | 'families'>,
  options: Omit<CleanUpOptions, 'chains' | 'flavours'> & { readonly log: Log },
): () => Promise<boolean> {
  const leave = leavingOthers(mode, options)
  const { flavour: inUse, families } = mode
  const other = inUse === undefined ? undefined : new OtherFlavour({ ...options, inUse, families })
  let isClean = false
  return async () => {
    isClean ||= await leave()
    await other?.look({ isClean })
    return isClean && other === undefined
  }
}
