// Reads the documents of a file into objects, ignored objects and problems.
import { ConfigError } from '../../errors.js'
import type { KubernetesObject } from '../objects.js'
import { isMapping } from '../../api/index.js'
import {
  describeDocument,
  isProblems,
  keyOfRefused,
  objectKey,
  objectReaders,
} from '../readers/read-object.js'

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

/** The objects of a file, and what is known of those that cannot be used. */
export interface FileObjects {
  readonly objects: KeyedObjects
  /** Keys of the objects that the file names and that cannot be used. */
  readonly unusable: ReadonlySet<string>
  /** Whether the file has an object whose key cannot be read: it may be any object of the file. */
  readonly hasNameless: boolean
}

/** A place in a file: a document, or an item of one that is a list; both count from 1. */
interface Place {
  readonly document: number
  readonly item?: number
}

/** The contents of a file, as far as it has been read. An object that cannot be used leaves the others as they are. */
export class ManifestContents implements FileObjects {
  /** Places and kinds of the objects that are not read. */
  readonly ignored: string[] = []
  readonly problems: ConfigError[] = []
  readonly #file: string
  readonly #objects = new Map<string, KubernetesObject>()
  /** Places of the objects, by their keys. */
  readonly #places = new Map<string, Place>()
  readonly #refused = new Set<string>()
  #hasNameless = false

  constructor(file: string) {
    this.#file = file
  }

  get objects(): KeyedObjects {
    return this.#objects
  }

  /** An object that is there once more, and can be used, counts. */
  get unusable(): ReadonlySet<string> {
    return new Set([...this.#refused].filter((key) => !this.#objects.has(key)))
  }

  get hasNameless(): boolean {
    return this.#hasNameless
  }

  /** Takes over one document as YAML or JSON gives it; undefined and null are empty documents. */
  addDocument(document: unknown, place: Place): void {
    if (document === null || document === undefined) return
    const where = placeText(place)
    if (!isMapping(document))
      return this.#nameless(where, 'must be a Kubernetes object (a mapping with apiVersion and kind)')
    const { apiVersion, kind, items } = document
    if (typeof apiVersion !== 'string' || apiVersion === '') {
      return this.#nameless(`${where}: apiVersion`, 'is missing: must be text such as v1')
    }
    if (typeof kind !== 'string' || kind === '') {
      return this.#nameless(`${where}: kind`, 'is missing: must be text such as Service')
    }
    const type = `${apiVersion} ${kind}`
    if (type !== 'v1 List' && !(type in typedLists)) return this.#addObject(document, type, place)
    if (!Array.isArray(items)) return this.#nameless(`${where} (${kind}): items`, 'must be a list')
    const list = { apiVersion, kind: typedLists[type] }
    for (const [index, item] of items.entries()) this.#addItem(item, list, { ...place, item: index + 1 })
  }

  #addItem(item: unknown, list: { apiVersion: string; kind: string | undefined }, place: Place): void {
    if (!isMapping(item)) return this.#nameless(placeText(place), 'must be a Kubernetes object (a mapping)')
    const apiVersion = item['apiVersion'] ?? (list.kind === undefined ? undefined : list.apiVersion)
    const kind = item['kind'] ?? list.kind
    if (typeof apiVersion !== 'string' || typeof kind !== 'string') {
      return this.#nameless(placeText(place), 'must have apiVersion and kind')
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
      const key = keyOfRefused(document, kind, object)
      if (key === undefined) this.#hasNameless = true
      else this.#refused.add(key)
      for (const { path, problem } of object)
        this.#wrong(path === '' ? where() : `${where()}: ${path}`, problem)
      return
    }
    const key = objectKey(object)
    const earlier = this.#places.get(key)
    if (earlier !== undefined) {
      return this.#wrong(
        where(),
        `is in ${placeText(earlier)} too, which is the one that counts: an object may be there once`,
      )
    }
    this.#objects.set(key, object)
    this.#places.set(key, place)
  }

  #nameless(where: string, problem: string): void {
    this.#hasNameless = true
    this.#wrong(where, problem)
  }

  #wrong(where: string, problem: string): void {
    this.problems.push(new ConfigError(`${this.#file}: ${where}`, problem))
  }
}

function placeText({ document, item }: Place): string {
  return item === undefined ? `document ${document}` : `document ${document}, item ${item}`
}
