// The unit of programming: one port of one Service, in one IP family (F-001 to F-003, F-012 to F-021).
import { type IpAddress, type IpFamily, familyOf, formatCidr, parseIpAddress } from '../address.js'
import {
  type ObjectKey,
  type SchedulingAnnotations,
  type Service,
  type ServicePortSpec,
  type ServiceProtocol,
  readLabels,
} from '../source/index.js'
import {
  type Exposure,
  type ExposureRules,
  type PortExposure,
  readExposure,
  type ServiceSide,
} from './exposure.js'

/** `namespace/name:port-name/protocol`; sorts bytewise, which settles conflicts between ports of one Service. */
export type ServicePortKey = string & { readonly brand: 'ServicePortKey' }

/** One Service port, as routing and the modes need it. */
export interface ServicePort extends PortExposure {
  readonly key: ServicePortKey
  /** `namespace/name`, as in messages. */
  readonly service: string
  /** Empty: the port has no name. */
  readonly portName: string
  /** Key of its endpoints within the Service: `port-name/protocol`. */
  readonly portId: string
  readonly protocol: ServiceProtocol
  readonly family: IpFamily
  /** undefined: the Service has none, and is served at its other frontends. An API server gives one to each Service. */
  readonly clusterIP: IpAddress | undefined
  readonly port: number
  /** 0: none. */
  readonly nodePort: number
  /** 0: no session affinity. */
  readonly affinitySeconds: number
  /** internalTrafficPolicy: Local. False without a cluster IP, which alone obeys it. */
  readonly isInternalLocal: boolean
  /** Reachable from outside by node port, external IP or load balancer (F-014). */
  readonly isExternallyAccessible: boolean
  /** The Service's settings for ipvs mode. */
  readonly scheduling: SchedulingAnnotations
  /** Unix seconds of the Service's creation; absent: unknown. */
  readonly createdSeconds?: number | undefined
}

/** The service ports of one Service in this family, and the Service's problems. */
interface ReadService {
  readonly ports: readonly ServicePort[]
  readonly problems: readonly string[]
  /** The frontends in this family of a Service without a cluster IP, in words. Absent: it has one, or it has no frontends. */
  readonly servedAt?: string | undefined
}

const nothing: ReadService = { ports: [], problems: [] }

export function portIdOf(name: string, protocol: ServiceProtocol): string {
  return `${name}/${protocol}`
}

/** `namespace/name`. Not a template: the text of a template keeps its parts, and takes two to four times the memory. */
export function objectName({ namespace, name }: ObjectKey): string {
  return [namespace, name].join('/')
}

/** Key of one port of the Service `namespace/name`. */
export function servicePortKey(service: string, portId: string): ServicePortKey {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a brand has no other origin
  return [service, portId].join(':') as ServicePortKey
}

/** The Service of the port, `namespace/name`: neither part has a colon. */
export function serviceOfPort(key: ServicePortKey): string {
  return key.slice(0, key.indexOf(':'))
}

/** The frontends of the port, each as a text of no further meaning; the same text in every Service. */
export function frontendTexts(port: ServicePort | undefined): ReadonlySet<string> {
  if (port === undefined) return new Set()
  const { protocol, clusterIP, externalIPs, loadBalancerIPs, nodePort } = port
  const addresses = [clusterIP, ...externalIPs, ...loadBalancerIPs]
  const texts = new Set(addresses.map((address) => `${protocol} ${address} ${port.port}`))
  return nodePort === 0 ? texts : texts.add(`${protocol} ${nodePort}`)
}

/** The families that the Service may have service ports in, or problems: `readServicePorts` finds nothing in another one. */
export function familiesOfService(service: Service): readonly IpFamily[] {
  const { clusterIP, ipFamilies } = service
  if (clusterIP === 'None') return []
  if (ipFamilies.length > 0) return ipFamilies.map((name) => (name === 'IPv4' ? 'ipv4' : 'ipv6'))
  if (clusterIP === '') return familiesWithoutClusterIP(service)
  const address = parseIpAddress(clusterIP)
  // An unreadable address belongs to no family. Only the IPv4 instance reports it.
  return [address === undefined ? 'ipv4' : familyOf(address)]
}

/** Reads the service ports of this family. A Service that is headless, external or another proxy's has none. */
export function readServicePorts(service: Service, family: IpFamily, rules: ExposureRules): ReadService {
  if (readLabels.otherProxy in service.labels || service.type === 'ExternalName') return nothing
  if (service.clusterIP === 'None') return nothing
  if (service.clusterIP === '') return readWithoutClusterIP(service, family, rules)
  const text = clusterIPText(service, family)
  if (text === undefined) return nothing
  const clusterIP = parseIpAddress(text)
  if (clusterIP === undefined) return { ports: [], problems: [`clusterIP "${text}" is not an IP address`] }
  // Without ipFamilies the address decides the family (F-003). With ipFamilies the two must agree.
  if (familyOf(clusterIP) !== family) {
    if (service.ipFamilies.length === 0) return nothing
    return { ports: [], problems: [`clusterIP ${text} is not of the family ${family} that ipFamilies names`] }
  }
  // Both families find the same unreadable texts. Only the family of spec.clusterIP reports them.
  const isReporter = text === service.clusterIP
  return readPorts(service, { family, clusterIP, isReporter }, rules)
}

function readPorts(service: Service, side: ServiceSide, rules: ExposureRules): ReadService {
  const { exposure, problems } = readExposure(service, side, rules)
  return { ports: service.ports.map((port) => readPort(service, port, side, exposure)), problems }
}

/** A Service of a manifest, which has only what is written. Its first family reports what both families find. */
function readWithoutClusterIP(service: Service, family: IpFamily, rules: ExposureRules): ReadService {
  const families = familiesOfService(service)
  if (!families.includes(family)) return nothing
  const isReporter = family === families[0]
  const read = (own: IpFamily): ReadService => {
    const side = { family: own, clusterIP: undefined, isReporter }
    const { ports, problems } = readPorts(service, side, rules)
    return { ports: ports.filter(hasFrontend), problems }
  }
  const { ports, problems } = read(family)
  if (ports.length > 0) return { ports, problems, servedAt: placesOf(ports) }
  if (!isReporter || families.some((own) => read(own).ports.length > 0)) return { ports, problems }
  const missing =
    'spec.clusterIP is missing: nothing is programmed; write an address, a nodePort or externalIPs, or None for a headless Service'
  return { ports, problems: [missing, ...problems] }
}

/** The families of the Service's other addresses, else IPv4: a node port has no family of its own. */
function familiesWithoutClusterIP({ externalIPs, loadBalancerIngress }: Service): readonly IpFamily[] {
  const texts = [...externalIPs, ...loadBalancerIngress.map(({ ip }) => ip)]
  const addresses = texts.map((text) => parseIpAddress(text.trim())).filter((found) => found !== undefined)
  return addresses.length === 0 ? ['ipv4'] : [...new Set(addresses.map(familyOf))]
}

function hasFrontend({ nodePort, externalIPs, loadBalancerIPs }: ServicePort): boolean {
  return nodePort !== 0 || externalIPs.length + loadBalancerIPs.length > 0
}

/** `external IP 203.0.113.1, node ports 30080 and 30443`. */
function placesOf(ports: readonly ServicePort[]): string {
  const nodePorts = ports.map(({ nodePort }) => nodePort).filter((nodePort) => nodePort !== 0)
  const { externalIPs = [], loadBalancerIPs = [] } = ports[0] ?? {}
  const kinds: readonly (readonly [kind: string, places: readonly (IpAddress | number)[]])[] = [
    ['external IP', externalIPs],
    ['load-balancer IP', loadBalancerIPs],
    ['node port', nodePorts],
  ]
  return kinds
    .filter(([, places]) => places.length > 0)
    .map(([kind, places]) => `${kind}${places.length > 1 ? 's' : ''} ${listed(places)}`)
    .join(', ')
}

const mostListed = 8

/** `1`, `1 and 2`, `1, 2 and 3`; of many the first: `1, 2, 3, 4, 5, 6, 7, 8 and 40 more`. */
function listed(places: readonly (IpAddress | number)[]): string {
  const isShort = places.length <= mostListed
  const first = places.slice(0, isShort ? -1 : mostListed)
  const last = isShort ? `${places.at(-1)}` : `${places.length - mostListed} more`
  return first.length === 0 ? last : `${first.join(', ')} and ${last}`
}

/** The cluster IP of this family (F-003); undefined: the Service has none. */
function clusterIPText(service: Service, family: IpFamily): string | undefined {
  if (service.ipFamilies.length === 0) {
    // An unreadable address belongs to no family. Only the IPv4 instance reports it.
    const isUnreadable = parseIpAddress(service.clusterIP) === undefined
    return isUnreadable && family !== 'ipv4' ? undefined : service.clusterIP
  }
  const index = service.ipFamilies.indexOf(family === 'ipv4' ? 'IPv4' : 'IPv6')
  return index === -1 ? undefined : service.clusterIPs[index]
}

function readPort(
  service: Service,
  port: ServicePortSpec,
  { family, clusterIP }: ServiceSide,
  exposure: Exposure,
): ServicePort {
  const name = objectName(service)
  const portId = portIdOf(port.name, port.protocol)
  return {
    key: servicePortKey(name, portId),
    service: name,
    portName: port.name,
    portId,
    protocol: port.protocol,
    family,
    clusterIP,
    port: port.port,
    nodePort: port.nodePort,
    externalIPs: exposure.externalIPs,
    loadBalancerIPs: exposure.loadBalancerIPs,
    sourceRanges: exposure.sourceRanges,
    affinitySeconds: service.sessionAffinity === 'ClientIP' ? service.sessionAffinityTimeoutSeconds : 0,
    isInternalLocal: clusterIP !== undefined && service.internalTrafficPolicy === 'Local',
    isExternalLocal: exposure.isExternalLocal,
    isExternallyAccessible: port.nodePort !== 0 || exposure.hasExternalAddress,
    healthCheckNodePort: exposure.healthCheckNodePort,
    scheduling: service.scheduling,
    createdSeconds: service.createdSeconds,
  }
}

/** `namespace/name:port`, or `namespace/name` for a port without a name, as kube-proxy writes a service port. */
export function servicePortName({ service, portName }: Pick<ServicePort, 'service' | 'portName'>): string {
  return portName === '' ? service : `${service}:${portName}`
}

export function equalServicePorts(a: ServicePort, b: ServicePort): boolean {
  return (
    a.key === b.key &&
    a.clusterIP === b.clusterIP &&
    a.port === b.port &&
    a.nodePort === b.nodePort &&
    a.affinitySeconds === b.affinitySeconds &&
    a.isInternalLocal === b.isInternalLocal &&
    a.isExternalLocal === b.isExternalLocal &&
    a.isExternallyAccessible === b.isExternallyAccessible &&
    a.healthCheckNodePort === b.healthCheckNodePort &&
    a.createdSeconds === b.createdSeconds &&
    equalScheduling(a.scheduling, b.scheduling) &&
    equalTexts(a.externalIPs, b.externalIPs) &&
    equalTexts(a.loadBalancerIPs, b.loadBalancerIPs) &&
    equalTexts(a.sourceRanges.map(formatCidr), b.sourceRanges.map(formatCidr))
  )
}

function equalScheduling(a: SchedulingAnnotations, b: SchedulingAnnotations): boolean {
  return a.scheduler === b.scheduler && a.schedulerFlags === b.schedulerFlags && a.weights === b.weights
}

function equalTexts(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((text, i) => text === b[i])
}

/** The facts about a Service that its place in the order depends on. Every node knows the same ones. */
export interface Seniority {
  /** `namespace/name`. */
  readonly service: string
  /** Unix seconds of the Service's creation. undefined: unknown, which counts as younger than any known time. */
  readonly createdSeconds?: number | undefined
}

/** Sorts the owner first: the older Service, then the name that is first bytewise. 0 only for equal names. */
export function compareSeniority(a: Seniority, b: Seniority): number {
  const [aSeconds, bSeconds] = [a.createdSeconds ?? Infinity, b.createdSeconds ?? Infinity]
  if (aSeconds !== bSeconds) return aSeconds < bSeconds ? -1 : 1
  if (a.service === b.service) return 0
  return a.service < b.service ? -1 : 1
}

/** Why the owner comes before the loser: a clause that follows the owner's name and a comma. */
export function seniorityReason(owner: Seniority, loser: Seniority): string {
  return owner.createdSeconds === loser.createdSeconds ? 'which sorts first' : 'which is older'
}
