import { formatEndpoint, type IpAddress } from '../address.js'
import type { ServicePort } from '../model/index.js'

/** The transport protocol of each Service protocol, in the spelling of the kernel's tools. */
export const frontendProtocols = { TCP: 'tcp', UDP: 'udp', SCTP: 'sctp' } as const satisfies Readonly<
  Record<ServicePort['protocol'], string>
>

export type FrontendProtocol = (typeof frontendProtocols)[ServicePort['protocol']]

/** A port of one address: a cluster IP, an external IP or a load-balancer IP. */
interface AddressFrontend {
  readonly kind: 'address'
  readonly address: IpAddress
  readonly protocol: FrontendProtocol
  readonly port: number
}

/** A port of every node address that serves node ports. */
interface NodePortFrontend {
  readonly kind: 'node-port'
  readonly protocol: FrontendProtocol
  readonly port: number
}

/** A health check port of a Service, which the node itself answers. It does not compete with a node port of the same number. */
interface HealthCheckFrontend {
  readonly kind: 'health-check'
  readonly protocol: 'tcp'
  readonly port: number
}

/** Where clients send packets to. A frontend has one owner among the service ports (docs/adr/0007). */
export type Frontend = AddressFrontend | NodePortFrontend | HealthCheckFrontend

/** The identity of a frontend, for people and for maps: `tcp 10.96.0.1:80`, `udp [fd00::1]:53`, `tcp node port 30080`. */
export function describeFrontend(frontend: Frontend): string {
  switch (frontend.kind) {
    case 'address':
      // Not a template: the text of a template keeps its parts in memory.
      return [frontend.protocol, formatEndpoint(frontend.address, frontend.port)].join(' ')
    case 'node-port':
      return `${frontend.protocol} node port ${frontend.port}`
    case 'health-check':
      return `health check ${frontend.protocol} node port ${frontend.port}`
  }
}

/** undefined: the frontend is a port of every node address. */
export function addressOf(frontend: Frontend): IpAddress | undefined {
  return frontend.kind === 'address' ? frontend.address : undefined
}

/** The addresses of a service port, each once: cluster IP if it has one, external IPs, load-balancer IPs. */
export function addressesOf({
  clusterIP,
  externalIPs,
  loadBalancerIPs,
}: Pick<ServicePort, 'clusterIP' | 'externalIPs' | 'loadBalancerIPs'>): ReadonlySet<IpAddress> {
  return new Set([...(clusterIP === undefined ? [] : [clusterIP]), ...externalIPs, ...loadBalancerIPs])
}

/** The frontends of a service port, each once: cluster IP, external IPs, load-balancer IPs, node port. No health check port. */
export function frontendsOf(
  port: Pick<ServicePort, 'protocol' | 'port' | 'nodePort'> & Parameters<typeof addressesOf>[0],
): readonly Frontend[] {
  const protocol = frontendProtocols[port.protocol]
  const frontends: Frontend[] = []
  for (const address of addressesOf(port))
    frontends.push({ kind: 'address', address, protocol, port: port.port })
  if (port.nodePort !== 0) frontends.push({ kind: 'node-port', protocol, port: port.nodePort })
  return frontends
}
