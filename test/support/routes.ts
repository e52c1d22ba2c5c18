// Routes for tests of the rooms after routing/: a plain ClusterIP port, with the changes of a case.
import { type Cidr, familyOf, type IpAddress, parseCidr, parseIpAddress } from '../../src/address.js'
import { servicePortKey } from '../../src/model/testing.js'
import type { Backend, Route } from '../../src/routing/index.js'

/** `1.2.3.4` as an address. Throws for other texts. */
export function ip(text: string): IpAddress {
  const address = parseIpAddress(text)
  if (address === undefined) throw new TypeError(`"${text}" is not an IP address`)
  return address
}

/** `10.0.0.0/8` as a network. Throws for other texts. */
export function cidr(text: string): Cidr {
  const network = parseCidr(text)
  if (network === undefined) throw new TypeError(`"${text}" is not a network`)
  return network
}

/** Backends with these addresses, all with port `port`. */
export function backends(port: number, ...addresses: readonly string[]): readonly Backend[] {
  return addresses.map((address) => ({ address: ip(address), port }))
}

/** default/web, 10.96.0.1:80/TCP, without endpoints and external frontends. `rest` replaces fields. */
export function plainRoute(rest: Partial<Route> = {}): Route {
  const { portName = '', protocol = 'TCP', service = 'default/web' } = rest
  return {
    key: servicePortKey(service, `${portName}/${protocol}`),
    service,
    portName,
    portId: `${portName}/${protocol}`,
    protocol,
    family: familyOf(rest.clusterIP ?? ip('10.96.0.1')),
    clusterIP: ip('10.96.0.1'),
    port: 80,
    nodePort: 0,
    externalIPs: [],
    loadBalancerIPs: [],
    sourceRanges: [],
    affinitySeconds: 0,
    isInternalLocal: false,
    isExternallyAccessible: false,
    isExternalLocal: false,
    healthCheckNodePort: 0,
    clusterBackends: [],
    localBackends: [],
    hasEndpoints: (rest.clusterBackends?.length ?? 0) + (rest.localBackends?.length ?? 0) > 0,
    flowBackends: [],
    scheduling: {},
    backendNodes: new Map(),
    ...rest,
  }
}
