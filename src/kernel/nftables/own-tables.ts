/** The tables of the modes that make VIPs local: each mode its own, so that the clean-up of another mode leaves it. */
export const natGuardTables = { ipvs: 'viaduct-ipvs', userspace: 'viaduct-userspace' } as const
export type NatGuardTable = (typeof natGuardTables)[keyof typeof natGuardTables]

const names: ReadonlySet<string> = new Set(['kube-proxy', ...Object.values(natGuardTables)])

/** Whether a table of nf_tables with this name is Viaduct's, or that of kube-proxy's nftables mode. */
export function isOwnTable(table: string): boolean {
  return names.has(table)
}
