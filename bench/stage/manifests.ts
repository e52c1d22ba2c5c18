// The same cluster as bench/state.ts, as a folder of JSON manifests.
import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { realServer, realServersOf, vip } from '../state.js'

export interface Size {
  readonly services: number
  /** Endpoints of each. */
  readonly reals: number
}

/** A replaced endpoint leaves the tables as big as they are, an added one does not. */
export type ChangeKind = 'replace' | 'add'

/** Whether kube-proxy, and Viaduct, leave out the comments of endpoints: more than 1,000 of them. */
export function isLargeCluster({ services, reals }: Size): boolean {
  return services * reals > 1000
}

/** A file holds so many Services and their slices: with 10 endpoints each some 100 KiB. */
const servicesPerFile = 100
/** The last services' slices, which change, have files of their own: what is timed is one object, as a watch brings it. */
const changingServices = 100
/** Endpoints that come by a change; no service begins with one of them. */
const firstNewReal = 0x80000

/** A folder that an agent follows. Removed by `remove`. */
export class Manifests {
  readonly size: Size
  readonly folder: string
  readonly #parent: string
  #changes = 0

  constructor(size: Size) {
    this.size = size
    this.#parent = mkdtempSync(join(tmpdir(), 'viaduct-bench-'))
    this.folder = join(this.#parent, 'manifests')
    mkdirSync(this.folder)
    const { services, reals } = size
    this.write('node.json', nodeObject)
    for (let first = 0; first < services; first += servicesPerFile) {
      const items: unknown[] = []
      for (let i = first; i < Math.min(first + servicesPerFile, services); i++) {
        items.push(serviceObject(i))
        if (i < services - changingServices) items.push(sliceObject(i, realServersOf(i, reals)))
        else this.write(`slice-${i}.json`, sliceObject(i, realServersOf(i, reals)))
      }
      this.write(`services-${first}.json`, { apiVersion: 'v1', kind: 'List', items })
    }
  }

  /** VIP of the service that is last in every walk. */
  get lastVip(): string {
    return vip(this.size.services - 1)
  }

  /** Gives one of the changing services a new first endpoint, by a rename into the folder: in place of its first, or one more. */
  change(kind: ChangeKind): { readonly vip: string; readonly endpoint: string } {
    const { services, reals } = this.size
    const index = services - 1 - (this.#changes % changingServices)
    const endpoint = realServer(firstNewReal + this.#changes++)
    this.write(
      `slice-${index}.json`,
      sliceObject(index, [endpoint, ...realServersOf(index, reals).slice(kind === 'replace' ? 1 : 0)]),
    )
    return { vip: vip(index), endpoint }
  }

  /** Puts an object into the folder; written elsewhere first, so that the folder sees one event. */
  write(name: string, object: unknown): void {
    const draft = join(this.#parent, name)
    writeFileSync(draft, JSON.stringify(object))
    renameSync(draft, join(this.folder, name))
  }

  remove(): void {
    rmSync(this.#parent, { recursive: true })
  }
}

/** Its address serves node ports in nftables mode, which waits for it. */
const nodeObject = {
  apiVersion: 'v1',
  kind: 'Node',
  metadata: { name: 'node-a' },
  status: { addresses: [{ type: 'InternalIP', address: '192.0.2.1' }] },
}

function serviceObject(index: number): unknown {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: `service-${index}`, namespace: 'default', labels: { app: `app-${index}` } },
    spec: {
      type: 'ClusterIP',
      clusterIP: vip(index),
      clusterIPs: [vip(index)],
      ipFamilies: ['IPv4'],
      ports: [{ port: 80, protocol: 'TCP', targetPort: 8080 }],
      selector: { app: `app-${index}` },
    },
  }
}

function sliceObject(index: number, addresses: readonly string[]): unknown {
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: {
      name: `service-${index}-a`,
      namespace: 'default',
      labels: { 'kubernetes.io/service-name': `service-${index}` },
    },
    addressType: 'IPv4',
    ports: [{ name: '', port: 8080, protocol: 'TCP' }],
    endpoints: addresses.map((address) => ({
      addresses: [address],
      conditions: { ready: true, serving: true, terminating: false },
      nodeName: 'node-b',
    })),
  }
}
