// Routes for the tests of NftTable, and what their table must have.
import assert from 'node:assert/strict'
import { compileRoute } from '../../src/layers/nft-table/testing.js'
import type { Route } from '../../src/routing/index.js'
import { inByteOrder, modelContent, type NftLab, openNftLab, wantedContent } from './nft-lab.js'
import { backends, cidr, ip, plainRoute } from './routes.js'

/** A Service of one port with these endpoints. */
export function service(number: number, ...endpoints: readonly string[]): Route {
  const clusterIP = ip(`10.96.${number >> 8}.${number & 255}`)
  return plainRoute({ service: `default/s${number}`, clusterIP, clusterBackends: backends(80, ...endpoints) })
}

export const web = service(1, '10.244.0.1', '10.244.0.2')
export const api = service(2, '10.244.0.3')
export const sticky = plainRoute({
  service: 'default/sticky',
  clusterIP: ip('10.96.0.50'),
  loadBalancerIPs: [ip('203.0.113.2')],
  sourceRanges: [cidr('192.0.2.0/24')],
  affinitySeconds: 600,
  isExternallyAccessible: true,
  clusterBackends: backends(80, '10.244.0.4', '10.244.0.5'),
})

/** The model has the elements of these routes, and no others. */
export function assertContent(lab: NftLab, routes: readonly Route[]): void {
  const desired = routes.map((route) => compileRoute(route, lab.settings))
  assert.deepEqual(inByteOrder(modelContent(lab)), inByteOrder(wantedContent(desired, lab.family)))
}

/** The names of all sets and chains. */
export function namesOf({ nftables }: NftLab): readonly string[] {
  const model = nftables.namespace.tables.ipv4.get('kube-proxy')
  return [...(model?.sets.keys() ?? []), ...(model?.chains.keys() ?? [])].toSorted()
}

/** A lab whose table has these routes. */
export async function written(...routes: readonly Route[]): Promise<NftLab> {
  const lab = openNftLab()
  lab.claim(...routes)
  assert.equal(await lab.write(), true)
  lab.nftables.transactions.length = 0
  return lab
}
