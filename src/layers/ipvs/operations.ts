// Operations of ipvs mode, as a pass counts and prints them.
import { describeIpsetOp, describeIpvsOp, type IpsetOp, type IpvsOp } from '../../kernel/index.js'
import type { OperationKind } from '../../engine/index.js'
import type { IpvsTable } from './compile/chains.js'

export const serverOperations: OperationKind<IpvsOp> = {
  name: 'ipvs',
  describe: describeIpvsOp,
  isMetered: true,
}

export const setOperations: OperationKind<IpsetOp> = {
  name: 'ipset',
  describe: describeIpsetOp,
  isMetered: true,
}

/** A table of x_tables that is written as a whole. */
export interface TableWrite {
  readonly op: `write-${IpvsTable}`
}

export const tableOperations: OperationKind<TableWrite> = {
  name: 'xtables',
  describe: () => 'fixed chains',
  isMetered: true,
}
