// Checks of interfaces and of the networks of pods.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ApiError } from '../../../src/api/index.js'
import { parseCidr } from '../../../src/address.js'
import { diagnose, type Examined } from '../../../src/doctor/index.js'
import type { Link } from '../../../src/kernel/index.js'
import { examinedNode } from '../../support/examined-node.js'
import { ip } from '../../support/routes.js'

const links: readonly Link[] = [
  { name: 'eth0', index: 2, kind: '', isUp: true },
  { name: 'flannel.1', index: 3, kind: 'vxlan', isUp: true },
]

const list = async (): Promise<readonly Link[]> => await Promise.resolve(links)

describe('the check of MTUs', () => {
  const cases = [
    { what: 'a tunnel that fits', mtu: 1450, status: 'ok' },
    { what: 'a tunnel that does not fit', mtu: 1451, status: 'warning' },
    { what: 'a tunnel that is bound to no interface', mtu: 1500, below: 3, status: 'ok' },
    { what: 'a tunnel over an interface of another namespace', mtu: 1500, below: 9, status: 'ok' },
    { what: 'a file system that shows no interfaces', mtu: undefined, status: 'ok' },
  ]
  for (const { what, mtu, below = 2, status } of cases)
    it(`is ${status} for ${what}`, async () => {
      const place = '/sys/class/net'
      const files = {
        [`${place}/flannel.1/iflink`]: `${below}\n`,
        [`${place}/flannel.1/mtu`]: `${mtu}\n`,
        [`${place}/eth0/mtu`]: '1500\n',
      }
      const node = examinedNode(mtu === undefined ? {} : files)
      const kernel = { ...node.kernel, links: { ...node.kernel.links, list } }
      const [found] = (await diagnose({ ...node, kernel })).filter(({ check }) => check === 'mtu')
      assert.equal(found?.status, status)
      if (status !== 'ok')
        assert.equal(
          found.seen,
          'flannel.1 has MTU 1451, which is more than the 1450 that eth0 below carries',
        )
    })
})

/** A node whose pods have these networks. */
function withPods(files: Readonly<Record<string, string>>, ...networks: readonly string[]): Examined {
  const node = examinedNode(files)
  return {
    ...node,
    config: { ...node.config, clusterCIDR: networks.flatMap((text) => parseCidr(text) ?? []) },
  }
}

describe('the check of IP forwarding', () => {
  const [ipv4, ipv6] = ['/proc/sys/net/ipv4/ip_forward', '/proc/sys/net/ipv6/conf/all/forwarding']
  const cases = [
    { files: { [ipv4]: '1\n', [ipv6]: '0\n' }, networks: ['10.244.0.0/16'], broken: [] },
    { files: { [ipv4]: '1\n', [ipv6]: '1\n' }, networks: ['fd00::/48'], broken: [] },
    { files: { [ipv4]: '1\n', [ipv6]: '0\n' }, networks: ['10.244.0.0/16', 'fd00::/48'], broken: [ipv6] },
    { files: { [ipv4]: '0\n', [ipv6]: '0\n' }, networks: [], broken: [ipv4] },
  ]
  for (const { files, networks, broken } of cases)
    it(`names ${broken.join(', ') || 'nothing'} for pods of ${networks.join(' and ') || 'unknown networks'}`, async () => {
      const found = (await diagnose(withPods(files, ...networks))).filter(
        ({ check, status }) => check === 'kernel-settings' && status !== 'ok',
      )
      assert.deepEqual(
        found.map(({ status, seen }) => [status, seen]),
        broken.map((path) => ['broken', `${path} is 0`]),
      )
    })
})

describe('the check of bridges', () => {
  const calls = '/proc/sys/net/bridge/bridge-nf-call-'
  const off = { [`${calls}iptables`]: '0\n', [`${calls}ip6tables`]: '0\n' }
  const silence = new ApiError({ code: 'silence', operation: 'GET', problem: 'no answer' })
  const silent: Examined['api'] = {
    server: new URL('https://api:6443'),
    node: async () => await Promise.reject(silence),
    ask: async () => await Promise.reject(silence),
  }
  const cases = [
    {
      what: 'networks of pods that are not known, and settings that are off',
      files: off,
      statuses: ['warning', 'warning'],
    },
    { what: 'networks of pods that are not known, without br_netfilter', files: {}, statuses: ['ok'] },
    { what: 'an API server that does not answer', files: off, api: silent, statuses: ['unknown'] },
    {
      what: 'known networks, and no bridge of pods',
      files: off,
      networks: ['10.244.0.0/16'],
      statuses: ['ok'],
    },
    { what: 'endpoints that see the node', files: off, masqueradeAll: true, statuses: ['ok'] },
  ]
  for (const { what, files, api, networks = [], masqueradeAll = false, statuses } of cases)
    it(`is ${statuses.join(', ')} for ${what}`, async () => {
      const node = withPods(files, ...networks)
      const config = { ...node.config, nftables: { ...node.config.nftables, masqueradeAll } }
      const found = (await diagnose({ ...node, config, api })).filter(
        ({ check }) => check === 'bridge-filter',
      )
      assert.deepEqual(
        found.map(({ status }) => status),
        statuses,
      )
    })

  it('names a bridge for the family of its address alone', async () => {
    const node = withPods(off, '10.244.0.0/16', 'fd00::/48')
    // The model has no other interface.
    const bridge = { name: 'cni0', index: 1, kind: 'bridge', isUp: true }
    const address = { address: ip('10.244.0.1'), prefixLength: 24, interfaceIndex: 1 }
    await node.kernel.routes.apply([{ op: 'add-address', address }])
    const kernel = {
      ...node.kernel,
      links: { ...node.kernel.links, list: async () => await Promise.resolve([bridge]) },
    }
    const found = (await diagnose({ ...node, kernel })).filter(({ check }) => check === 'bridge-filter')
    assert.deepEqual(
      found.map(({ seen }) => seen),
      ['pods are on the bridge cni0, and net.bridge.bridge-nf-call-iptables is 0'],
    )
  })
})
