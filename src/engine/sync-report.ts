import type { IpFamily } from '../address.js'
import type { FamilyMetrics } from '../metrics/index.js'

/** Of the family; names are those of kube-proxy's lines. */
export interface WorldSize {
  /** Service ports. */
  readonly numServices: number
  readonly numEndpoints: number
}

export function worldSize(tracker: {
  readonly servicePortCount: number
  readonly endpointCount: number
}): WorldSize {
  return { numServices: tracker.servicePortCount, numEndpoints: tracker.endpointCount }
}

/** `sizes`: of the ledger, by kind of object. */
export function reportSizes(metrics: FamilyMetrics, sizes: Readonly<Record<string, number>>): void {
  for (const [kind, size] of Object.entries(sizes)) metrics.ledgerObjects(kind).set(size)
}

/** As kube-proxy writes it. */
export function logFamily(family: IpFamily): 'IPv4' | 'IPv6' {
  return family === 'ipv4' ? 'IPv4' : 'IPv6'
}
