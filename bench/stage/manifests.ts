// The same cluster as bench/state.ts, as a folder of JSON manifests.
import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { realServer, realServersOf, vip } from '../state.js'

export interface Size {
  readonly services: number
  /** Endpoints per Service. */
  readonly reals: number
}

/** A replaced endpoint does not change the size of the tables; an added one does. */
export type ChangeKind = 'replace' | 'add'

/** Whether kube-proxy and Viaduct leave out the comments of endpoints: above 1,000 endpoints. */
export function isLargeCluster({ services, reals }: Size): boolean {
  return services * reals > 1000
}

/** Services and their slices per file: some 100 KiB with 10 endpoints each. */
const servicesPerFile = 100
/** The slices of the last Services, which change, have their own files, so that a change is one object, as in a watch. */
const changingServices = 100
/** First number of the endpoints that changes add. No Service has one of them at the start. */
const firstNewReal = 0x80000

/** A folder of manifests for an agent. `remove` removes it. */
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

  /** VIP of the last Service in the order of rules. */
  get lastVip(): string {
    return vip(this.size.services - 1)
  }

  /** Replaces the first endpoint of one of the changing Services, or adds one, by a rename into the folder. */
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

  /** Writes an object outside the folder and renames it into the folder, so that the folder has one event. */
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
