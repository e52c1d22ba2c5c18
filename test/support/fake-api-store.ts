// The store of a fake API server: objects with versions, and the history that watches read until it is compacted.
import { documentOf, type Document, type Kind } from './api-shapes.js'

export interface StoredChange {
  readonly version: number
  readonly kind: Kind
  readonly before: Document | undefined
  /** undefined: the object was deleted. */
  readonly after: Document | undefined
}

export interface StoreBackup {
  readonly version: number
  readonly objects: Partial<Record<Kind, ReadonlyMap<string, Document>>>
}

/** Whether a watch or a list includes this object. */
export type Selector = (object: Document) => boolean

export class FakeApiStore {
  #version = 1
  #oldest = 1
  #history: StoredChange[] = []
  #objects: Record<Kind, Map<string, Document>> = {
    Service: new Map(),
    EndpointSlice: new Map(),
    Node: new Map(),
    ServiceCIDR: new Map(),
  }
  readonly #listeners = new Set<(change: StoredChange) => void>()

  get version(): number {
    return this.#version
  }

  put(kind: Kind, object: Document): void {
    const key = keyOf(object)
    const before = this.#objects[kind].get(key)
    this.#version += 1
    const metadata = { ...documentOf(object['metadata']), resourceVersion: String(this.#version) }
    const after = { ...object, metadata }
    this.#objects[kind].set(key, after)
    this.#note({ version: this.#version, kind, before, after })
  }

  /** `namespace/name`; of a Node or a ServiceCIDR, `/name`. */
  remove(kind: Kind, key: string): void {
    const before = this.#objects[kind].get(key)
    if (before === undefined) throw new Error(`${kind} ${key} is not there`)
    this.#version += 1
    this.#objects[kind].delete(key)
    this.#note({ version: this.#version, kind, before, after: undefined })
  }

  list(kind: Kind, selects: Selector): readonly Document[] {
    return [...this.#objects[kind].values()].filter(selects)
  }

  /** The state of now, for restore(). */
  backUp(): StoreBackup {
    const objects = Object.entries(this.#objects).map(([kind, of]) => [kind, new Map(of)])
    return { version: this.#version, objects: Object.fromEntries(objects) }
  }

  /** Takes an earlier state, as an API server on a restored etcd. Later versions count on from it. */
  restore({ version, objects }: StoreBackup): void {
    this.#version = version
    this.#oldest = version
    this.#history = []
    for (const kind of ['Service', 'EndpointSlice', 'Node', 'ServiceCIDR'] as const)
      this.#objects[kind] = new Map(objects[kind])
  }

  /** Forgets the history. A client with an older version must list again. */
  compact(): void {
    this.#version += 1
    this.#oldest = this.#version
    this.#history = []
  }

  /** The changes after `version`; undefined: some of them were compacted. */
  changesSince(version: number): readonly StoredChange[] | undefined {
    if (version < this.#oldest) return undefined
    return this.#history.filter((change) => change.version > version)
  }

  /** Calls `listener` for each change. Returns a function that ends this. */
  listen(listener: (change: StoredChange) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  #note(change: StoredChange): void {
    this.#history.push(change)
    for (const listener of this.#listeners) listener(change)
  }
}

function keyOf(object: Document): string {
  const { namespace, name } = documentOf(object['metadata'])
  return `${typeof namespace === 'string' ? namespace : ''}/${String(name)}`
}

/** The selectors of a query. Supported: `!label`, `!label,other in (value,…)`, `field=value` and `field!=value`. */
export function selectorOf(query: URLSearchParams): Selector {
  const [, absent = '', label = '', values = ''] =
    /^!([^,]+)(?:,(\S+) in \((.*)\))?$/u.exec(query.get('labelSelector') ?? '') ?? []
  const field = /^([^!=]+)(!?=)(.*)$/u.exec(query.get('fieldSelector') ?? '')
  return (object) => {
    const labels = documentOf(documentOf(object['metadata'])['labels'])
    if (absent in labels) return false
    if (label !== '' && !values.split(',').includes(String(labels[label]))) return false
    if (field === null) return true
    const [, path = '', operator, wanted = ''] = field
    const value = path.split('.').reduce<unknown>((inner, step) => documentOf(inner)[step], object)
    return operator === '=' ? value === wanted : value !== wanted
  }
}
