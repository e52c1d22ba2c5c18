// Which endpoints kube-proxy uses, written a second time from its rules (F-025 to F-036), apart from src/routing: a second
// opinion on the expectations of the traffic table.
import type { EndpointSlice, KubernetesObject, Service, SliceEndpoint } from '../../../src/source/index.js'
import { type Family, nodeName, zone } from '../table/world.js'

export interface ReferenceEndpoint {
  readonly address: string
  readonly port: number
  readonly endpoint: SliceEndpoint
}

export interface ReferenceEndpoints {
  readonly cluster: readonly ReferenceEndpoint[]
  readonly local: readonly ReferenceEndpoint[]
  readonly hasAny: boolean
}

/** No octet and no prefix length keeps leading zeros (F-004). */
export function canonical(text: string): string {
  return text.includes(':') ? text.trim() : text.trim().replaceAll(/\b0+(?=\d)/g, '')
}

/** Endpoints of one port of a Service in one family. */
export function referenceEndpoints(
  service: Service,
  port: Service['ports'][number],
  family: Family,
  objects: readonly KubernetesObject[],
): ReferenceEndpoints {
  const byKey = new Map<string, ReferenceEndpoint>()
  for (const found of endpointsOf(service, port, family, objects)) {
    const key = `${found.address} ${found.port}`
    if (!found.endpoint.conditions.terminating || !byKey.has(key)) byKey.set(key, found)
  }
  const all = [...byKey.values()]
  const ready = all.filter(({ endpoint }) => endpoint.conditions.ready)
  const fallback = all.filter(
    ({ endpoint: { conditions } }) => !conditions.ready && conditions.serving && conditions.terminating,
  )
  const isHere = ({ endpoint }: ReferenceEndpoint): boolean => endpoint.nodeName === nodeName
  const localReady = ready.filter(isHere)
  return {
    cluster: ready.length > 0 ? hinted(ready) : fallback,
    local: localReady.length > 0 ? localReady : fallback.filter(isHere),
    hasAny: ready.length + fallback.length > 0,
  }
}

function endpointsOf(
  service: Service,
  port: Service['ports'][number],
  family: Family,
  objects: readonly KubernetesObject[],
): readonly ReferenceEndpoint[] {
  const slices = objects.filter((object): object is EndpointSlice => object.kind === 'EndpointSlice')
  return slices
    .filter((slice) => slice.serviceName === service.name && slice.addressType === family)
    .flatMap((slice) =>
      slice.ports
        .filter(({ name, protocol }) => name === port.name && protocol === port.protocol)
        .flatMap(({ port: number }) =>
          number === undefined || number === 0
            ? []
            : slice.endpoints.map((endpoint) => ({
                address: canonical(endpoint.address),
                port: number,
                endpoint,
              })),
        ),
    )
}

/** F-036. */
function hinted(ready: readonly ReferenceEndpoint[]): readonly ReferenceEndpoint[] {
  const kinds = [
    ({ endpoint }: ReferenceEndpoint) => ({ hints: endpoint.nodeHints, own: nodeName }),
    ({ endpoint }: ReferenceEndpoint) => ({ hints: endpoint.zoneHints, own: zone }),
  ]
  for (const kind of kinds) {
    const chosen = ready.filter((found) => kind(found).hints.includes(kind(found).own))
    if (chosen.length > 0 && ready.every((found) => kind(found).hints.length > 0)) return chosen
  }
  return ready
}
