// Reads the documents of a file into objects, ignored objects and problems.
import { ConfigError } from '../../errors.js'
import type { KubernetesObject } from '../objects.js'
import { isMapping } from '../../api/index.js'
import { describeDocument, isProblems, objectKey, objectReaders } from '../readers/read-object.js'

// Lists as the API server answers them: their items may lack apiVersion and kind.
const typedLists: Readonly<Record<string, string>> = {
  'v1 ServiceList': 'Service',
  'discovery.k8s.io/v1 EndpointSliceList': 'EndpointSlice',
  'v1 NodeList': 'Node',
  'networking.k8s.io/v1 ServiceCIDRList': 'ServiceCIDR',
  'networking.k8s.io/v1beta1 ServiceCIDRList': 'ServiceCIDR',
}

/** Objects by their keys, in the order in which they were read. */
export type KeyedObjects = ReadonlyMap<string, KubernetesObject>

/** A place in a file: a document, or an item of one that is a list; both count from 1. */
interface Place {
  readonly document: number
  readonly item?: number
}

/** The contents of a file, as far as it has been read. */
export class ManifestContents {
  /** Places and kinds of the objects that are not read. */
  readonly ignored: string[] = []
  readonly problems: ConfigError[] = []
  readonly #file: string
  readonly #objects = new Map<string, KubernetesObject>()
  /** Places of the objects, in the order in which they were read. */
  readonly #places: Place[] = []

  constructor(file: string) {
    this.#file = file
  }

  get objects(): KeyedObjects {
    return this.#objects
  }

  /** Takes over one document as YAML or JSON gives it; undefined and null are empty documents. */
  addDocument(document: unknown, place: Place): void {
    if (document === null || document === undefined) return
    const where = placeText(place)
    if (!isMapping(document))
      return this.#wrong(where, 'must be a Kubernetes object (a mapping with apiVersion and kind)')
    const { apiVersion, kind, items } = document
    if (typeof apiVersion !== 'string' || apiVersion === '') {
      return this.#wrong(`${where}: apiVersion`, 'is missing: must be text such as v1')
    }
    if (typeof kind !== 'string' || kind === '') {
      return this.#wrong(`${where}: kind`, 'is missing: must be text such as Service')
    }
    const type = `${apiVersion} ${kind}`
    if (type !== 'v1 List' && !(type in typedLists)) return this.#addObject(document, type, place)
    if (!Array.isArray(items)) return this.#wrong(`${where} (${kind}): items`, 'must be a list')
    const list = { apiVersion, kind: typedLists[type] }
    for (const [index, item] of items.entries()) this.#addItem(item, list, { ...place, item: index + 1 })
  }

  #addItem(item: unknown, list: { apiVersion: string; kind: string | undefined }, place: Place): void {
    if (!isMapping(item)) return this.#wrong(placeText(place), 'must be a Kubernetes object (a mapping)')
    const apiVersion = item['apiVersion'] ?? (list.kind === undefined ? undefined : list.apiVersion)
    const kind = item['kind'] ?? list.kind
    if (typeof apiVersion !== 'string' || typeof kind !== 'string') {
      return this.#wrong(placeText(place), 'must have apiVersion and kind')
    }
    this.#addObject(item, `${apiVersion} ${kind}`, place)
  }

  #addObject(document: Readonly<Record<string, unknown>>, type: string, place: Place): void {
    const kind = type.slice(type.lastIndexOf(' ') + 1)
    const where = (): string => `${placeText(place)} (${describeDocument(document, kind)})`
    const read = Object.hasOwn(objectReaders, type) ? objectReaders[type] : undefined
    if (read === undefined) {
      this.ignored.push(where())
      return
    }
    const object = read(document)
    if (isProblems(object)) {
      for (const { path, problem } of object)
        this.#wrong(path === '' ? where() : `${where()}: ${path}`, problem)
      return
    }
    const key = objectKey(object)
    if (this.#objects.has(key)) {
      const earlier = this.#places[[...this.#objects.keys()].indexOf(key)] ?? place
      return this.#wrong(where(), `is in ${placeText(earlier)} too: an object may be there once`)
    }
    this.#objects.set(key, object)
    this.#places.push(place)
  }

  #wrong(where: string, problem: string): void {
    this.problems.push(new ConfigError(`${this.#file}: ${where}`, problem))
  }
}

function placeText({ document, item }: Place): string {
  return item === undefined ? `document ${document}` : `document ${document}, item ${item}`
}
