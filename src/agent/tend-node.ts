import type { CleanUpOptions, Mode } from '../engine/index.js'
import { NftConflicts, openConflicts, OtherFlavour, reportReturnedDevice } from '../host/index.js'
import type { Log } from '../log.js'
import { leavingOthers } from './modes.js'

/**
 * Returns the work that the agent does on the node besides Services: it removes the leftovers of other modes, until nothing is left,
 * and looks for conflicts with rules of other programs.
 */
export function tendingNode(
  mode: Pick<Mode, 'name' | 'flavour' | 'families'>,
  options: Omit<CleanUpOptions, 'chains' | 'flavours'> & { readonly log: Log },
): () => Promise<void> {
  const leave = leavingOthers(mode, options)
  const { name, flavour: inUse, families } = mode
  const conflicts = openConflicts(options.log)
  const other = inUse === undefined ? undefined : new OtherFlavour({ ...options, inUse, families, conflicts })
  const tables = name === 'ipvs' ? (['mangle', 'filter', 'nat'] as const) : (['filter', 'nat'] as const)
  const nft = new NftConflicts({ ...options, inUse, tables, families, conflicts })
  let isClean = false
  return async () => {
    isClean ||= await leave()
    await other?.look({ isClean })
    await nft.look()
    if (isClean && name !== 'ipvs') await reportReturnedDevice(options.kernel.links, conflicts)
  }
}
