// The parts of an entry, by set type.
import type { IpsetType } from './ipset.js'

/** Like SetType of native/ipset/set_type.h. */
export interface IpsetShape {
  readonly hasAddress: boolean
  readonly hasPort: boolean
  readonly hasSecondAddress: boolean
  /** The last address is a network. */
  readonly hasNetwork: boolean
}

const none: IpsetShape = { hasAddress: true, hasPort: false, hasSecondAddress: false, hasNetwork: false }

export const ipsetShapes: Readonly<Record<IpsetType, IpsetShape>> = {
  'hash:ip': none,
  'hash:net': { ...none, hasNetwork: true },
  'hash:ip,port': { ...none, hasPort: true },
  'hash:ip,port,ip': { ...none, hasPort: true, hasSecondAddress: true },
  'hash:ip,port,net': { ...none, hasPort: true, hasSecondAddress: true, hasNetwork: true },
  'bitmap:port': { ...none, hasAddress: false, hasPort: true },
}
