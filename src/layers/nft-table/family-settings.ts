import type { Cidr } from '../../address.js'
import type { NftModeSettings } from './compile/settings.js'

/** The settings of one family's table. */
export interface NftFamilySettings extends NftModeSettings {
  /** The networks of cluster IPs; undefined: not all are known yet, and those of the table stay. */
  readonly serviceCidrs: readonly Cidr[] | undefined
}

/** The settings without those that only the rules of the mode itself depend on. */
export function forRoutes({ serviceCidrs: _serviceCidrs, ...settings }: NftFamilySettings): NftModeSettings {
  return {
    ...settings,
    masqueradeMark: 0,
    masqueradeAll: false,
    localDetector: undefined,
    nodePortAddresses: 'all',
    localhostNodePorts: false,
  }
}
