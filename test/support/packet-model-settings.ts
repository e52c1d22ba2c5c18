// Settings of iptables mode for tests: kube-proxy's defaults, with the changes of a case.
import type { IpFamily } from '../../src/address.js'
import type { IptablesModeSettings } from '../../src/modes/iptables/testing.js'

export function makeSettings(
  family: IpFamily = 'ipv4',
  rest: Partial<IptablesModeSettings> = {},
): IptablesModeSettings {
  return {
    family,
    masqueradeMark: 0x4000,
    masqueradeAll: false,
    localDetector: undefined,
    nodePortAddresses: 'all',
    localhostNodePorts: family === 'ipv4',
    dropsInvalid: true,
    nodeIP: undefined,
    withComments: false,
    ...rest,
  }
}
