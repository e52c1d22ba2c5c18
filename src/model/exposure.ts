// The external side of a Service in one IP family: addresses, source ranges, policy (F-009, F-010 to F-012, F-014, F-017, F-018).
import { type Cidr, type IpAddress, type IpFamily, familyOf, parseCidr, parseIpAddress } from '../address.js'
import type { Service } from '../source/index.js'

/** The external side of a Service port; all ports of a Service share it. */
export interface PortExposure {
  /** External IPs of this family, without duplicates and without the cluster IP; empty where they are not allowed (F-010, F-011). */
  readonly externalIPs: readonly IpAddress[]
  /** Load-balancer VIPs of this family, without duplicates and without the cluster IP; some may also be external IPs (F-009). */
  readonly loadBalancerIPs: readonly IpAddress[]
  /** Sources that may reach the load-balancer VIPs; empty: all (F-017). */
  readonly sourceRanges: readonly Cidr[]
  /** externalTrafficPolicy: Local, for a Service that obeys it (F-012). */
  readonly isExternalLocal: boolean
  /** The port of the Service's health check; 0: none (F-018). */
  readonly healthCheckNodePort: number
}

export interface Exposure extends PortExposure {
  /** The Service has an external IP or a load-balancer VIP of this family, even if it is ignored. */
  readonly hasExternalAddress: boolean
}

interface ReadExposure {
  readonly exposure: Exposure
  readonly problems: readonly string[]
}

/** The values of one field, for one family. */
interface Texts<T> {
  readonly ofFamily: readonly T[]
  /** Texts that parse in neither family. */
  readonly unreadable: readonly string[]
}

/** Most Services are internal. They share one exposure object, which saves memory. */
function isInternal(service: Service): boolean {
  const { externalIPs, loadBalancerIngress, loadBalancerSourceRanges } = service
  const lists = externalIPs.length + loadBalancerIngress.length + loadBalancerSourceRanges.length
  return lists === 0 && service.externalTrafficPolicy === 'Cluster'
}

const internal = {
  exposure: {
    externalIPs: [],
    loadBalancerIPs: [],
    sourceRanges: [],
    isExternalLocal: false,
    healthCheckNodePort: 0,
    hasExternalAddress: false,
  },
  problems: [],
} satisfies ReadExposure

/** The operator's settings for all Services. */
export interface ExposureRules {
  /** False: external IPs are no frontends. A Service that has some still counts as externally accessible (F-011). */
  readonly allowsExternalIPs: boolean
}

/** A Service in one IP family. */
export interface ServiceSide {
  readonly family: IpFamily
  /** undefined: the Service has none. */
  readonly clusterIP: IpAddress | undefined
  /** Whether this family reports what both families find in the Service. */
  readonly isReporter: boolean
}

/** Skips addresses and networks of the other family: its own instance reads them. */
export function readExposure(
  service: Service,
  { family, clusterIP, isReporter }: ServiceSide,
  { allowsExternalIPs }: ExposureRules,
): ReadExposure {
  if (isInternal(service)) return internal
  const vips = service.loadBalancerIngress.filter(({ ipMode }) => ipMode === 'VIP').map(({ ip }) => ip)
  const balancerIPs = readTexts(vips, (text) => ofFamily(parseIpAddress(text), familyOf, family))
  const externalIPs = readTexts(service.externalIPs, (text) =>
    ofFamily(parseIpAddress(text), familyOf, family),
  )
  const ranges = readTexts(service.loadBalancerSourceRanges, (text) =>
    ofFamily(parseCidr(text), (cidr) => cidr.family, family),
  )
  const isExternalLocal = service.externalTrafficPolicy === 'Local' && obeysExternalPolicy(service)
  const needsHealthCheck = isExternalLocal && service.type === 'LoadBalancer'
  const exposure: Exposure = {
    externalIPs: allowsExternalIPs ? othersThan(clusterIP, externalIPs.ofFamily) : [],
    loadBalancerIPs: othersThan(clusterIP, balancerIPs.ofFamily),
    sourceRanges: ranges.ofFamily.some(isEverything) ? [] : ranges.ofFamily,
    isExternalLocal,
    healthCheckNodePort: needsHealthCheck ? service.healthCheckNodePort : 0,
    hasExternalAddress: externalIPs.ofFamily.length + balancerIPs.ofFamily.length > 0,
  }
  if (!isReporter) return { exposure, problems: [] }
  const problems = [
    ...externalIPs.unreadable.map((text) => `spec.externalIPs: "${text}" is not an IP address`),
    ...balancerIPs.unreadable.map((text) => `status.loadBalancer.ingress: "${text}" is not an IP address`),
    ...ranges.unreadable.map(
      (text) => `spec.loadBalancerSourceRanges: "${text}" is not a network in CIDR form`,
    ),
  ]
  if (needsHealthCheck && service.healthCheckNodePort === 0) {
    problems.push(
      'spec.healthCheckNodePort is missing: load balancers cannot find the nodes with local endpoints',
    )
  }
  return { exposure, problems }
}

/** F-012: the type decides. A ClusterIP Service obeys the policy if it has external IPs of either family. */
function obeysExternalPolicy({ type, externalIPs }: Service): boolean {
  return type === 'NodePort' || type === 'LoadBalancer' || (type === 'ClusterIP' && externalIPs.length > 0)
}

function isEverything({ prefixLength }: Cidr): boolean {
  return prefixLength === 0
}

/** undefined: unreadable. null: belongs to the other family. */
function ofFamily<T>(value: T | undefined, read: (value: T) => string, family: string): T | null | undefined {
  return value === undefined || read(value) === family ? value : null
}

/** Trims each text and skips blank ones. */
function readTexts<T>(texts: readonly string[], read: (text: string) => T | null | undefined): Texts<T> {
  const found: T[] = []
  const unreadable: string[] = []
  for (const text of texts.map((written) => written.trim()).filter((trimmed) => trimmed !== '')) {
    const value = read(text)
    if (value === undefined) unreadable.push(text)
    else if (value !== null) found.push(value)
  }
  return { ofFamily: found, unreadable }
}

/** The addresses in their order, without duplicates and without the cluster IP. */
function othersThan(clusterIP: IpAddress | undefined, addresses: readonly IpAddress[]): readonly IpAddress[] {
  return [...new Set(addresses)].filter((address) => address !== clusterIP)
}
