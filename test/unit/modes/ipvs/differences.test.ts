// Objects of a route that another program removed from the kernel.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { resolveConfig } from '../../../../src/config/index.js'
import type { IpsetOp, IpsetSettings, IpvsOp, RouteOp } from '../../../../src/kernel/index.js'
import { setName, setSpec } from '../../../../src/layers/ipvs/compile/sets.js'
import { entryText, serviceText } from '../../../../src/modes/ipvs/describe.js'
import { differences } from '../../../../src/modes/ipvs/differences.js'
import { compileRoute } from '../../../../src/modes/ipvs/testing.js'
import { openModelKernel } from '../../../model/index.js'
import { backends, cidr, ip, plainRoute } from '../../../support/routes.js'

const { ipvs } = resolveConfig({ manifests: 'none' })
const nodeIP = ip('192.168.60.11')
const node = { nodePortAddresses: [nodeIP], nodeAddresses: new Set([nodeIP]), nodeIP }
const settings = { ...ipvs, masqueradeMark: 0x4000, missing: new Set<string>(), ...node }
const mark = 0x10_0000
const route = plainRoute({
  clusterBackends: backends(8080, '10.1.0.1', '10.1.0.2'),
  localBackends: backends(8080, '10.1.0.1'),
  hasEndpoints: true,
  isExternallyAccessible: true,
  isExternalLocal: true,
  nodePort: 30_080,
  externalIPs: [ip('192.0.2.7')],
  loadBalancerIPs: [ip('192.0.2.8')],
  sourceRanges: [cidr('203.0.113.0/24')],
})
const servers = compileRoute(route, settings, mark)

type ModelKernel = ReturnType<typeof openModelKernel>

/** A change by another program, and the sentence about it. */
interface Removal {
  readonly sentence: string
  readonly ipvs?: readonly IpvsOp[]
  readonly ipset?: readonly IpsetOp[]
  readonly routes?: readonly RouteOp[]
}

const entries = new Map(
  servers.flatMap((server) =>
    server.entries.map(({ set, entry }) => {
      const { type } = setSpec(set)
      const name = setName(set, 'ipv4')
      const extensions = { hasMarks: entry.mark !== undefined, hasComments: false }
      const ofSet: IpsetSettings = {
        name,
        type,
        family: 'ipv4',
        maxElements: 64,
        hashSize: 64,
        ...extensions,
      }
      return [`entry ${entryText(entry)} of set ${name} is missing`, { set: ofSet, entry }] as const
    }),
  ),
)
const sets = new Map([...entries.values()].map(({ set }) => [set.name, set]))
const vips = servers.flatMap(({ key, bindAddress }) => (bindAddress && 'address' in key ? [key.address] : []))

async function filledKernel(): Promise<ModelKernel> {
  const kernel = openModelKernel()
  const outcomes = [
    await kernel.ipvs.apply(
      servers.flatMap(({ key, settings: of, realServers }) => [
        { op: 'add-virtual-server' as const, server: { key, settings: of } },
        ...[...realServers].map((real) => ({ op: 'add-real-server' as const, server: key, real })),
      ]),
    ),
    await kernel.ipset.apply([
      ...[...sets.values()].map((set) => ({ op: 'create-set' as const, set })),
      ...[...entries.values()].map((entry) => ({ op: 'add-entry' as const, ...entry })),
    ]),
    await kernel.routes.apply(
      vips.map((address) => ({ op: 'add-route', route: { address, interfaceIndex: 1, protocol: 3 } })),
    ),
  ]
  assert.deepEqual(
    outcomes.flatMap(({ failures }) => failures),
    [],
  )
  return kernel
}

const removals: readonly Removal[] = [
  ...servers.flatMap(({ key, realServers }) => {
    const server = serviceText(key)
    return [
      {
        sentence: `virtual server ${server} is missing`,
        ipvs: [{ op: 'remove-virtual-server' as const, server: key }],
      },
      ...[...realServers].flatMap((real) => {
        const name = `real server ${real.key.address}:${real.key.port} of virtual server ${server}`
        const drained = { ...real, settings: { ...real.settings, weight: 0 } }
        return [
          {
            sentence: `${name} is missing`,
            ipvs: [{ op: 'remove-real-server' as const, server: key, real: real.key }],
          },
          {
            sentence: `${name} has weight 0, not 1`,
            ipvs: [{ op: 'set-real-server' as const, server: key, real: drained }],
          },
        ]
      }),
    ]
  }),
  ...[...entries].map(([sentence, entry]) => ({
    sentence,
    ipset: [{ op: 'delete-entry' as const, ...entry }],
  })),
  ...[...sets.keys()].map((name) => ({
    sentence: `set ${name} is missing`,
    ipset: [{ op: 'destroy-set' as const, name }],
  })),
  ...vips.map((address) => ({
    sentence: `local route of ${address} is missing`,
    routes: [{ op: 'remove-route' as const, route: { address, interfaceIndex: 1, protocol: 3 } }],
  })),
]

describe('the kernel against a route of ipvs mode', () => {
  it('agrees when it has every object', async () => {
    assert.deepEqual(await differences(servers, await filledKernel()), [])
    assert.ok(removals.length >= 24, `${removals.length} removals`)
  })

  for (const removal of removals) {
    it(removal.sentence, async () => {
      const kernel = await filledKernel()
      await kernel.ipvs.apply(removal.ipvs ?? [])
      await kernel.ipset.apply(removal.ipset ?? [])
      await kernel.routes.apply(removal.routes ?? [])
      assert.deepEqual(await differences(servers, kernel), [removal.sentence])
    })
  }
})
