import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'

/** Devices that kernel modules add to every new namespace. */
const fallbackDevice = /^(tunl0|gre0|gretap0|erspan0|sit0|ip6tnl0|ip6gre0|ip_vti0|ip6_vti0)$/

/** Throws unless `lo`, which must be up, is the only device in the network namespace of this process. */
export function requireFreshNamespace(): void {
  const devices = readFileSync('/proc/self/net/dev', 'utf8').match(/^\s*[^\s:]+(?=:)/gm) ?? []
  const others = devices.map((name) => name.trim()).filter((name) => !fallbackDevice.test(name))
  assert.deepEqual(
    others,
    ['lo'],
    'the contract suites change addresses, routes and IPVS: run them under `unshare -n`',
  )
  const addresses = readFileSync('/proc/self/net/if_inet6', 'utf8')
  assert.ok(addresses.includes(' lo\n'), 'lo must be up: `ip link set lo up`')
}
