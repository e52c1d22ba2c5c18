import type { IpFamily } from '../address.js'

/** Sizes of one family, by the names of kube-proxy's log lines. */
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

/** The family's name as kube-proxy writes it. */
export function logFamily(family: IpFamily): 'IPv4' | 'IPv6' {
  return family === 'ipv4' ? 'IPv4' : 'IPv6'
}
