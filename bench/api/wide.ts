// A Service with many ports over one EndpointSlice, as a tenant may make it, for the API server of the benchmarks.
import type { Document, Kind } from '../../test/support/api-shapes.js'
import { protobufWriter } from '../../test/support/api-writer.js'
import { realPort } from '../stage/place.js'
import { realServer, vip } from '../state.js'

export interface WideSize {
  readonly ports: number
  readonly endpoints: number
}

const name = 'wide'
/** Behind the Services of every benchmark. */
const vipNumber = 0x90000
/** First numbers of its endpoints, and of those that changes add. */
const [firstReal, firstNewReal] = [0xa0000, 0xb0000]
const firstPort = 1000
/** Of pods, except for the last port. */
const firstTarget = 20_000

/** The address and the last port. A connection to it is answered by `realPort` of an endpoint. */
export function widePlace({ ports }: WideSize): { readonly address: string; readonly port: number } {
  return { address: vip(vipNumber), port: firstPort + ports - 1 }
}

/** The events that add the Service and its slice. `version`: the next resource version. */
export function addedWide(size: WideSize, version: number): readonly (readonly [Kind, Buffer])[] {
  const ports = portsOf(size, (i) => ({
    port: firstPort + i,
    protocol: 'TCP',
    targetPort: { intVal: targetOf(size, i) },
  }))
  const spec = {
    type: 'ClusterIP',
    clusterIP: vip(vipNumber),
    clusterIPs: [vip(vipNumber)],
    ipFamilies: ['IPv4'],
    sessionAffinity: 'None',
    ports,
  }
  const service = { metadata: { namespace: 'default', name, resourceVersion: String(version) }, spec }
  return [
    ['EndpointSlice', protobufWriter.event('ADDED', 'EndpointSlice', sliceDocument(size, 0, version))],
    ['Service', protobufWriter.event('ADDED', 'Service', service)],
  ]
}

/** Change number `change`, from 1 on: the slice with one other endpoint. */
export function changedWide(size: WideSize, change: number, version: number): readonly [Kind, Buffer] {
  return [
    'EndpointSlice',
    protobufWriter.event('MODIFIED', 'EndpointSlice', sliceDocument(size, change, version)),
  ]
}

function sliceDocument(size: WideSize, change: number, version: number): Document {
  const labels = { 'kubernetes.io/service-name': name }
  const addresses = Array.from({ length: size.endpoints }, (_, i) => realServer(firstReal + i))
  if (change > 0) addresses[change % size.endpoints] = realServer(firstNewReal + change)
  return {
    metadata: { namespace: 'default', name: `${name}-a`, labels, resourceVersion: String(version) },
    addressType: 'IPv4',
    ports: portsOf(size, (i) => ({ port: targetOf(size, i), protocol: 'TCP' })),
    endpoints: addresses.map((address) => ({
      addresses: [address],
      conditions: { ready: true, serving: true, terminating: false },
      nodeName: 'node-b',
    })),
  }
}

function portsOf({ ports }: WideSize, portOf: (i: number) => Document): readonly Document[] {
  return Array.from({ length: ports }, (_, i) => ({ name: `p${i}`, ...portOf(i) }))
}

function targetOf({ ports }: WideSize, i: number): number {
  return i === ports - 1 ? realPort : firstTarget + i
}
