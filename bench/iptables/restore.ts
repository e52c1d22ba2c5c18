// Input of iptables-restore with the rules of kube-proxy 1.36 for the Services of bench/state.ts.
import { endpointChain, ServiceChains } from '../../src/layers/xtables/names.js'
import { ip } from '../../test/support/routes.js'
import { realServersOf, vip } from '../state.js'
import { isLargeCluster, type Size } from '../stage/manifests.js'

const protocol = 'tcp'
const realPort = 8080

/** Jumps from built-in chains, and all rules that do not depend on Services. kube-proxy writes the jumps one by one. */
export function skeletonText(): string {
  const fresh = '-m conntrack --ctstate NEW '
  const portals = comment('kubernetes service portals')
  const external = comment('kubernetes externally-visible service portals')
  const firewall = comment('kubernetes load balancer firewall')
  const localnet = '-d 127.0.0.0/8 ! -s 127.0.0.0/8 -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP'
  return restoreText({
    filter: {
      chains: ['SERVICES', 'EXTERNAL-SERVICES', 'FORWARD', 'NODEPORTS', 'PROXY-FIREWALL', 'FIREWALL'],
      rules: [
        '-A INPUT -j KUBE-FIREWALL',
        `-A INPUT ${fresh}${firewall}-j KUBE-PROXY-FIREWALL`,
        `-A INPUT ${comment('kubernetes health check service ports')}-j KUBE-NODEPORTS`,
        `-A INPUT ${fresh}${external}-j KUBE-EXTERNAL-SERVICES`,
        `-A FORWARD ${fresh}${firewall}-j KUBE-PROXY-FIREWALL`,
        `-A FORWARD ${comment('kubernetes forwarding rules')}-j KUBE-FORWARD`,
        `-A FORWARD ${fresh}${portals}-j KUBE-SERVICES`,
        `-A FORWARD ${fresh}${external}-j KUBE-EXTERNAL-SERVICES`,
        '-A OUTPUT -j KUBE-FIREWALL',
        `-A OUTPUT ${fresh}${firewall}-j KUBE-PROXY-FIREWALL`,
        `-A OUTPUT ${fresh}${portals}-j KUBE-SERVICES`,
        `-A KUBE-FIREWALL ${comment('block incoming localnet connections')}${localnet}`,
        '-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP',
        `-A KUBE-FORWARD ${comment('kubernetes forwarding rules')}-m mark --mark 0x4000/0x4000 -j ACCEPT`,
        `-A KUBE-FORWARD ${comment('kubernetes forwarding conntrack rule')}-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT`,
      ],
    },
    nat: {
      chains: ['SERVICES', 'NODEPORTS', 'POSTROUTING', 'MARK-MASQ'],
      rules: [
        `-A PREROUTING ${portals}-j KUBE-SERVICES`,
        `-A OUTPUT ${portals}-j KUBE-SERVICES`,
        `-A POSTROUTING ${comment('kubernetes postrouting rules')}-j KUBE-POSTROUTING`,
        '-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN',
        '-A KUBE-POSTROUTING -j MARK --xor-mark 0x4000',
        `-A KUBE-POSTROUTING ${comment('kubernetes service traffic requiring SNAT')}-j MASQUERADE --random-fully`,
        '-A KUBE-MARK-MASQ -j MARK --or-mark 0x4000',
      ],
    },
  })
}

/** Table nat with every Service. */
export function servicesText(size: Size): string {
  const chains = [':KUBE-SERVICES - [0:0]']
  const rules: string[] = []
  for (let i = 0; i < size.services; i++) {
    const name = serviceName(i)
    const { cluster } = new ServiceChains(name, protocol)
    const addresses = realServersOf(i, size.reals)
    chains.push(`:${cluster} - [0:0]`)
    rules.push(
      `-A KUBE-SERVICES ${comment(`${name} cluster IP`)}-m tcp -p tcp -d ${vip(i)} --dport 80 -j ${cluster}`,
    )
    for (const [j, address] of addresses.entries()) {
      const chain = endpointOf(i, address)
      const says = endpointComment(`${name} -> ${address}:${realPort}`, size)
      chains.push(`:${chain} - [0:0]`)
      rules.push(`-A ${cluster} ${says}${chance(addresses.length - j)}-j ${chain}`)
      rules.push(...endpointRules(i, address, size))
    }
  }
  const last = comment('kubernetes service nodeports; NOTE: this must be the last rule in this chain')
  rules.push(`-A KUBE-SERVICES ${last}-m addrtype --dst-type LOCAL -j KUBE-NODEPORTS`)
  return ['*nat', ...chains, ...rules, 'COMMIT', ''].join('\n')
}

/** Table nat with the rewritten chain of one endpoint of Service `index`. */
export function oneChainText(index: number, address: string, size: Size): string {
  const chain = `:${endpointOf(index, address)} - [0:0]`
  return ['*nat', chain, ...endpointRules(index, address, size), 'COMMIT', ''].join('\n')
}

function serviceName(index: number): string {
  return `default/service-${index}`
}

function endpointOf(index: number, address: string): string {
  return endpointChain(serviceName(index), protocol, { address: ip(address), port: realPort })
}

function endpointRules(index: number, address: string, size: Size): readonly string[] {
  const chain = endpointOf(index, address)
  const says = endpointComment(serviceName(index), size)
  return [
    `-A ${chain} ${says}-s ${address} -j KUBE-MARK-MASQ`,
    `-A ${chain} ${says}-m tcp -p tcp -j DNAT --to-destination ${address}:${realPort}`,
  ]
}

/** The match that takes one of `left` remaining endpoints at random. The last one needs no match. */
function chance(left: number): string {
  return left === 1 ? '' : `-m statistic --mode random --probability ${(1 / left).toFixed(10)} `
}

function comment(text: string): string {
  return `-m comment --comment "${text}" `
}

/** The comment of an endpoint's rule. kube-proxy leaves it out in a large cluster. */
function endpointComment(text: string, size: Size): string {
  return isLargeCluster(size) ? '' : comment(text)
}

interface TableText {
  /** Without KUBE-. */
  readonly chains: readonly string[]
  readonly rules: readonly string[]
}

function restoreText(tables: Readonly<Record<string, TableText>>): string {
  return Object.entries(tables)
    .flatMap(([table, { chains, rules }]) => [
      `*${table}`,
      ...chains.map((chain) => `:KUBE-${chain} - [0:0]`),
      ...rules,
      'COMMIT',
    ])
    .join('\n')
    .concat('\n')
}
