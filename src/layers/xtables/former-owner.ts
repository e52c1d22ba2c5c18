import { dispatchChains } from './names.js'
import type { IptablesXtables } from './tables.js'

/** Whether base chains of kube-proxy or of a former run exist. Throws KernelError. */
export async function hasFormerOwner(tables: IptablesXtables): Promise<boolean> {
  const wanted = Object.values(dispatchChains)
  for (const table of ['nat', 'filter'] as const) {
    const present = new Set((await tables[table].chains()).map(({ chain }) => chain))
    if (wanted.some((base) => base.table === table && present.has(base.chain))) return true
  }
  return false
}
