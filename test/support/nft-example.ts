// Services of nftables mode in the lab of the traffic table, without an agent.
import { parseIpAddress, type IpFamily } from '../../src/address.js'
import type { NftModeSettings } from '../../src/layers/nft-table/index.js'
import type { Backend, Route } from '../../src/routing/index.js'
import { addresses, type Family, nodeName, nodeOf, type Place, podNetwork } from '../traffic/table/world.js'
import { makeNftSettings } from './nft-table.js'
import { cidr, ip, plainRoute } from './routes.js'

export const exampleFamilies: Readonly<Record<IpFamily, Family>> = { ipv4: 'IPv4', ipv6: 'IPv6' }

/** Number of each Service: the end of its addresses and of its node port. */
export const numbers = {
  spread: 1,
  local: 2,
  away: 3,
  guarded: 4,
  empty: 5,
  sticky: 6,
  self: 7,
  inner: 8,
  clash: 9,
  stickyLocal: 10,
} as const
export type ExampleService = keyof typeof numbers

const networks = {
  cluster: { ipv4: '10.96.0.', ipv6: 'fd00:10:96::' },
  external: { ipv4: '10.97.0.', ipv6: 'fd00:10:97::' },
  balancer: { ipv4: '10.98.0.', ipv6: 'fd00:10:98::' },
} as const

export function virtualAddress(
  kind: keyof typeof networks,
  family: IpFamily,
  service: ExampleService | number,
) {
  return `${networks[kind][family]}${typeof service === 'number' ? service : numbers[service]}`
}

export function nodePortOf(service: ExampleService): number {
  return 30_080 + numbers[service]
}

export const unallocated = 99

/** One family recognizes pods by their network, the other by the bridge of a2; one has node ports on one address, the other on all. */
export function exampleSettings(family: IpFamily): NftModeSettings {
  const world = exampleFamilies[family]
  const isIPv4 = family === 'ipv4'
  return makeNftSettings(family, {
    localDetector: isIPv4
      ? { kind: 'cidr', cidr: cidr(podNetwork[world]) }
      : { kind: 'interface', name: 'cbr+' },
    nodePortAddresses: isIPv4 ? [ip(addresses.node[world])] : 'all',
    nodeIP: parseIpAddress(addresses.node[world]),
    nodeName,
  })
}

/** Every Service over TCP and over UDP. */
export function exampleRoutes(family: IpFamily): readonly Route[] {
  const world = exampleFamilies[family]
  const on = (...places: readonly Place[]): readonly Backend[] =>
    places.map((place) => ({ address: ip(addresses[place][world]), port: 8080, nodeName: nodeOf(place) }))
  const hostNetwork = cidr(`${addresses.outside[world]}/${family === 'ipv4' ? 32 : 128}`)
  const services: Readonly<Record<ExampleService, Partial<Route>>> = {
    spread: { clusterBackends: on('a0', 'a1', 'b0') },
    local: { isExternalLocal: true, clusterBackends: on('a1', 'b0'), localBackends: on('a1') },
    away: { isExternalLocal: true, clusterBackends: on('b0', 'b1') },
    guarded: { clusterBackends: on('b0'), sourceRanges: [hostNetwork, cidr(podNetwork[world])] },
    empty: {},
    sticky: { clusterBackends: on('a0', 'a1', 'b0', 'b1'), affinitySeconds: 60 },
    self: { clusterBackends: on('a0') },
    stickyLocal: {
      isExternalLocal: true,
      affinitySeconds: 60,
      clusterBackends: on('a0', 'a1', 'b0', 'b1'),
      localBackends: on('a0', 'a1'),
    },
    inner: { isInternalLocal: true, hasEndpoints: true },
    clash: { clusterBackends: on('a2'), port: nodePortOf('sticky'), nodePort: 0 },
  }
  return Object.entries(services).flatMap(([name, rest]) => {
    const service: ExampleService = isExample(name) ? name : 'spread'
    return (['TCP', 'UDP'] as const).map((protocol) =>
      plainRoute({
        service: `default/${service}`,
        protocol,
        clusterIP: ip(virtualAddress('cluster', family, service)),
        externalIPs: [ip(virtualAddress('external', family, service))],
        loadBalancerIPs: [ip(virtualAddress('balancer', family, service))],
        nodePort: nodePortOf(service),
        isExternallyAccessible: true,
        ...rest,
      }),
    )
  })
}

function isExample(name: string): name is ExampleService {
  return name in numbers
}
