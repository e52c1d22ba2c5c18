import { BugError } from '../../errors.js'
import type { DispatchChain } from './compile/desired.js'
import { dispatchChains } from './compile/names.js'

// Short, as names of bucket chains begin with them. They match a pattern that a later start prunes, if this run ends early.
const names = new Map<DispatchChain, string>([
  [dispatchChains.services, 'KUBE-FW-_S'],
  [dispatchChains.nodePorts, 'KUBE-FW-_N'],
  [dispatchChains.refusedServices, 'KUBE-FW-_S'],
  [dispatchChains.refusedExternal, 'KUBE-FW-_E'],
  [dispatchChains.firewall, 'KUBE-FW-_F'],
  [dispatchChains.healthChecks, 'KUBE-FW-_N'],
])

/** Name of the chain that stands beside a dispatch chain of a former owner until all objects are known. */
export function standInFor(dispatch: DispatchChain): string {
  const name = names.get(dispatch)
  if (name === undefined) throw new BugError(`${dispatch.table} ${dispatch.chain} is no dispatch chain`)
  return name
}
