// Routes and settings for tests of iptables mode: plain ones, and what makes them different.
import { type Cidr, formatEndpoint, type IpFamily, parseCidr } from '../../src/address.js'
import { BugError } from '../../src/errors.js'
import { servicePortKey } from '../../src/model/index.js'
import type { IptablesModeSettings } from '../../src/modes/iptables/index.js'
import type { Backend, Route } from '../../src/routing/index.js'
import { ip } from './pipeline-lab.js'

/** A TCP port 80 without name and without endpoints. */
export function makeRoute(service: string, clusterIP: string, rest: Partial<Route> = {}): Route {
  const { portName = '', protocol = 'TCP', clusterBackends = [], localBackends = [] } = rest
  return {
    key: servicePortKey(service, `${portName}/${protocol}`),
    service,
    portName,
    protocol,
    clusterIP: ip(clusterIP),
    port: 80,
    nodePort: 0,
    externalIPs: [],
    loadBalancerIPs: [],
    sourceRanges: [],
    affinitySeconds: 0,
    isInternalLocal: false,
    isExternalLocal: false,
    healthCheckNodePort: 0,
    clusterBackends,
    localBackends,
    hasEndpoints: clusterBackends.length + localBackends.length > 0,
    servingBackends: [],
    ...rest,
  }
}

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

export function cidr(text: string): Cidr {
  const network = parseCidr(text)
  if (network === undefined) throw new BugError(`${text} is no CIDR`)
  return network
}

/** Backends on port 8080, in the order of routing. */
export function backends(...addresses: readonly string[]): readonly Backend[] {
  return addresses
    .map((address) => ({ address: ip(address), port: 8080 }))
    .toSorted((a, b) => (formatEndpoint(a.address, a.port) < formatEndpoint(b.address, b.port) ? -1 : 1))
}
