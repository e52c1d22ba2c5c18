import { BugError } from '../../errors.js'
import type { DispatchChain } from './desired.js'
import { dispatchChains } from './names.js'

// The names are short, as names of bucket chains begin with them. They match a pattern of `ownedChains`, so a later start removes
// the chains if this run ends early.
const names = new Map<DispatchChain, string>([
  [dispatchChains.services, 'KUBE-FW-_S'],
  [dispatchChains.nodePorts, 'KUBE-FW-_N'],
  [dispatchChains.refusedServices, 'KUBE-FW-_S'],
  [dispatchChains.refusedExternal, 'KUBE-FW-_E'],
  [dispatchChains.firewall, 'KUBE-FW-_F'],
  [dispatchChains.healthChecks, 'KUBE-FW-_N'],
])

/** Name of our chain that stands beside a former owner's dispatch chain until all objects are known. */
export function standInFor(dispatch: DispatchChain): string {
  const name = names.get(dispatch)
  if (name === undefined) throw new BugError(`${dispatch.table} ${dispatch.chain} is no dispatch chain`)
  return name
}
