/** The table that keeps the VIPs of userspace mode from rules for the node's own addresses (docs/adr/0027). */
export const natGuardTable = 'viaduct-userspace'

const names: ReadonlySet<string> = new Set(['kube-proxy', natGuardTable])

/** Whether a table of nf_tables with this name is Viaduct's, or that of kube-proxy's nftables mode. */
export function isOwnTable(table: string): boolean {
  return names.has(table)
}
