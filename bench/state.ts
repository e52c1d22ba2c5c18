// The state that all programs of a benchmark write: Service i has VIP 10.96.0.1 + i, TCP port 80, and M real servers
// 10.128.0.1 + (i * M + j), port 8080. bench/floor/floor.c uses the same numbers.
import type { EndpointSlice, Service } from '../src/source/index.js'
import { service as testService, slice as testSlice } from '../test/support/objects.js'

const firstVip = 0x0a600001
const firstReal = 0x0a800001
const vipPort = 80
const realPort = 8080
/** The node port of service 0; each next service has the next port. */
export const firstNodePort = 30_000

/** Number of Services with a node port, in measurements with node ports. They are the first ones. */
export function nodePortServices(services: number): number {
  return services / 10
}

/** The address of this number. */
export function ipv4(number: number): string {
  return `${number >>> 24}.${(number >>> 16) & 255}.${(number >>> 8) & 255}.${number & 255}`
}

export function vip(index: number): string {
  return ipv4(firstVip + index)
}

export function realServer(index: number): string {
  return ipv4(firstReal + index)
}

/** Service `index` as an object of the API. */
export function service(index: number): Service {
  return testService(`service-${index}`, vip(index))
}

/** The slice of service `index` with these endpoint addresses. */
export function slice(index: number, addresses: readonly string[]): EndpointSlice {
  return testSlice(`service-${index}-a`, `service-${index}`, addresses)
}

/** The real servers of Service `index`, if each Service has `reals`. */
export function realServersOf(index: number, reals: number): string[] {
  return Array.from({ length: reals }, (_, j) => realServer(index * reals + j))
}

/** Input of `ipvsadm -R` for the same state; with node ports if `nodeAddress` is given. */
export function ipvsadmRestore(services: number, reals: number, nodeAddress?: string): string {
  const lines: string[] = []
  const add = (server: string, i: number): void => {
    lines.push(`-A -t ${server} -s rr`)
    for (const real of realServersOf(i, reals)) lines.push(`-a -t ${server} -r ${real}:${realPort} -m -w 1`)
  }
  for (let i = 0; i < services; i++) {
    add(`${vip(i)}:${vipPort}`, i)
    if (nodeAddress !== undefined && i < nodePortServices(services))
      add(`${nodeAddress}:${firstNodePort + i}`, i)
  }
  return `${lines.join('\n')}\n`
}

/** Input of `ipset restore` for the same state with node ports, in kube-proxy's sets. */
export function ipsetRestore(services: number): string {
  const lines = [
    'create KUBE-CLUSTER-IP hash:ip,port family inet maxelem 65536 comment',
    'create KUBE-NODE-PORT-TCP bitmap:port range 0-65535 comment',
  ]
  for (let i = 0; i < services; i++) lines.push(`add KUBE-CLUSTER-IP ${vip(i)},tcp:${vipPort}`)
  for (let i = 0; i < nodePortServices(services); i++)
    lines.push(`add KUBE-NODE-PORT-TCP ${firstNodePort + i}`)
  return `${lines.join('\n')}\n`
}

/** Input of `ip -batch` that binds the VIPs. */
export function ipBatch(services: number, binding: 'routes' | 'addresses'): string {
  const lines: string[] = []
  for (let i = 0; i < services; i++) {
    lines.push(
      binding === 'routes'
        ? `route add local ${vip(i)} dev lo table local proto 173 scope host`
        : `addr add ${vip(i)}/32 dev kube-ipvs0`,
    )
  }
  return `${lines.join('\n')}\n`
}
