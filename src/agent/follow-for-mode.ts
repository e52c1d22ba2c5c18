import type { ProxyMode } from '../config/index.js'
import type { Source } from '../source/index.js'

/** Modes that make VIPs local. They must not take the addresses of other Nodes (docs/adr/0028). */
const modesWithVips: ReadonlySet<ProxyMode> = new Set(['ipvs', 'userspace'])

/** Lets the source deliver what only some modes need. `mode`: the mode that is open, which may be a fallback. */
export function followForMode(
  source: Pick<Source, 'followNodes' | 'followServiceCidrs'>,
  mode: ProxyMode,
): void {
  source.followNodes?.(modesWithVips.has(mode) ? 'all' : 'own')
  if (mode === 'nftables') source.followServiceCidrs?.()
}
