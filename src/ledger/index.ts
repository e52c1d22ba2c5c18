// In: the virtual servers that routes want; batch outcomes; packed dumps. Out: batches of operations that are still due.
// Never: system calls, clocks, logs; it believes what the kernel acknowledged (of iptables mode: docs/adr/0010), and nothing else.
// Owner of: acknowledged virtual servers and VIP bindings, who claims them, and which addresses are needed.
// Read next: ledger.ts, diff.ts, vip-table.ts, then sync/family-pipeline.ts; of iptables mode: iptables-ledger.ts.
export { advance, diff, equalStates, realServerId, type ServerState } from './diff.js'
export type { Confirmation } from './batch.js'
export { type AdoptOptions, Ledger, type LedgerCut } from './ledger.js'
export { type Conflict, type DrainPolicy, type Entry } from './entry.js'
export { type Drift } from './drift.js'
export {
  dummyDeviceName,
  VipTable,
  type Vip,
  type VipCut,
  type VipPlace,
  type VipReading,
} from './vip-table.js'
export { includesAddress, hostAddresses, PackedRoutes } from './packed-bindings.js'
export { PackedDump } from './packed.js'
export type { FrontendConflict } from './iptables-frontends.js'
export { IptablesLedger } from './iptables-ledger.js'
export { standInName } from './ipset-exchange.js'
export { type DumpedSet, type IpsetBatch, IpsetTable } from './ipset-table.js'
export type { SetState } from './ipset-set.js'
export { MarkTable } from './ipset-marks.js'
