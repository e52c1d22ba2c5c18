import { isMapping, textOf, type FieldProblem, type WireObject } from '../../api/index.js'
import { BugError } from '../../errors.js'
import type { StateReporter } from '../../log.js'
import type { KubernetesObject, ObjectEvent } from '../objects.js'
import { describeDocument, isClusterScoped, isProblems, joinProblems } from '../readers/read-object.js'
import { initialEventsEnd } from './messages.js'
import { linkNameOf, type Resource } from './resources.js'

/** The objects of one kind, as the API server has them. Turns answers into events: differences only. Pure, except for its reports. */
export class KnownObjects {
  readonly #resource: Pick<Resource, 'kind' | 'linkName' | 'read'>
  readonly #problems: StateReporter
  /** States of the objects that were delivered, by `namespace/name`: see stateOf(). */
  readonly #states = new Map<string, string>()
  /** Keys of the objects whose last state was refused. An earlier state may be in force. */
  readonly #refused = new Set<string>()
  /** Keys of the objects that the current listing has named so far; undefined: no listing is under way. */
  #seen: Set<string> | undefined
  #namesAll = true
  /** Whether the last complete listing had an item without a readable name. */
  #missesNames = false

  /** `problems` reports objects that cannot be used. Several kinds may share it. */
  constructor(resource: Pick<Resource, 'kind' | 'linkName' | 'read'>, problems: StateReporter) {
    this.#resource = resource
    this.#problems = problems
  }

  /** Whether the object that the server has under this name is the one that was taken under it. True if it has no readable name. */
  isSame(wire: WireObject): boolean {
    if (!isNamed(wire)) return true
    const key = this.#keyOf(wire)
    const state = this.#states.get(key)
    if (state === undefined) return this.#refused.has(key)
    return state === '' || uidOf(state) === uidOf(stateOf(wire))
  }

  get isEmpty(): boolean {
    return this.#states.size + this.#refused.size === 0
  }

  /** Versions mean nothing any more: the next listing delivers every object again. */
  forgetVersions(): void {
    for (const key of this.#states.keys()) this.#states.set(key, '')
  }

  /** Begins a listing: until endListing(), take() gets every existing object. An interrupted listing deletes nothing. */
  beginListing(): void {
    this.#seen = new Set()
    this.#namesAll = true
  }

  /** Ends a listing. Returns deletions of the objects that it lacks; none if an item had no readable name: it may be any of them. */
  endListing(): readonly ObjectEvent[] {
    const seen = this.#seen
    if (seen === undefined) throw new BugError('a listing ends that did not begin')
    this.#seen = undefined
    this.#missesNames = !this.#namesAll
    if (this.#missesNames) return []
    this.#problems.report(linkNameOf(this.#resource), undefined)
    const known = new Set([...this.#states.keys(), ...this.#refused])
    const gone = [...known].filter((key) => !seen.has(key))
    return gone.map((key) => this.#forget(key)).filter((event) => event !== undefined)
  }

  /** Whether a state of every existing object was delivered. An earlier run may have programmed the others. */
  get isComplete(): boolean {
    return !this.#missesNames && [...this.#refused].every((key) => this.#states.has(key))
  }

  /** Takes the state of an existing object. undefined: the state is known already, or it cannot be used, which is reported. */
  take(wire: WireObject): ObjectEvent | undefined {
    const key = this.#nameOf(wire)
    if (key === undefined) return undefined
    this.#seen?.add(key)
    if (wire.problem !== undefined) return this.#refuse(key, wire.document, [wire.problem])
    const state = stateOf(wire)
    if (state !== '' && this.#states.get(key) === state) return undefined
    const object = this.#resource.read(wire.document)
    if (isProblems(object)) return this.#refuse(key, wire.document, object)
    this.#states.set(key, state)
    if (this.#refused.delete(key)) this.#problems.report(this.#problemKey(key), undefined)
    return { type: 'set', object }
  }

  /** Takes an object that is deleted or no longer matches the selectors. undefined: it was never delivered, or has no readable name. */
  remove(wire: WireObject): ObjectEvent | undefined {
    const key = this.#nameOf(wire)
    if (key === undefined) return undefined
    this.#seen?.delete(key)
    return this.#forget(key)
  }

  /** undefined: it was never delivered. */
  #forget(key: string): ObjectEvent | undefined {
    if (this.#refused.delete(key)) this.#problems.forget(this.#problemKey(key))
    if (!this.#states.delete(key)) return undefined
    return { type: 'delete', kind: this.#resource.kind, key: objectKeyOf(key) }
  }

  /** `namespace/name`, or undefined and a report. */
  #nameOf(wire: WireObject): string | undefined {
    if (isNamed(wire)) return this.#keyOf(wire)
    const { problem } = wire
    this.#namesAll = false
    const { path, problem: why } = problem ?? { path: 'metadata.name', problem: 'is missing' }
    const text = `${this.#resource.kind} without a name: ${path === '' ? '' : `${path}: `}${why}`
    this.#problems.report(linkNameOf(this.#resource), { text })
    return undefined
  }

  #keyOf({ document }: WireObject): string {
    const { name, namespace } = metadataOf(document)
    // Not a template: the text of a template keeps its parts in memory.
    return [this.#namespaceOf(namespace), textOf(name)].join('/')
  }

  #namespaceOf(namespace: unknown): string {
    if (isClusterScoped(this.#resource.kind)) return ''
    return typeof namespace === 'string' ? namespace : 'default'
  }

  #refuse(key: string, document: unknown, found: readonly FieldProblem[]): undefined {
    this.#refused.add(key)
    const object = describeDocument(document, this.#resource.kind)
    const texts = found.map(({ path, problem }) => (path === '' ? problem : `${path}: ${problem}`))
    this.#problems.report(this.#problemKey(key), {
      text: `${object}: ${joinProblems(texts)}`,
      fields: { object },
    })
  }

  #problemKey(key: string): string {
    return `${this.#resource.kind} ${key}`
  }
}

/** resourceVersion of an object; empty: none is readable. */
export function versionOf({ document }: WireObject): string {
  return textOf(metadataOf(document)['resourceVersion'])
}

/** Version and uid of an object, which together name its state; empty: no version is readable. */
function stateOf(wire: WireObject): string {
  const version = versionOf(wire)
  return version === '' ? '' : [version, textOf(metadataOf(wire.document)['uid'])].join(' ')
}

function uidOf(state: string): string {
  return state.slice(state.indexOf(' ') + 1)
}

/** Whether the document names its object. */
export function isNamed({ document }: WireObject): boolean {
  return typeof metadataOf(document)['name'] === 'string'
}

/** Whether this bookmark ends the objects of a streamed list. */
export function endsInitialEvents({ document }: WireObject): boolean {
  const { annotations } = metadataOf(document)
  return isMapping(annotations) && annotations[initialEventsEnd] === 'true'
}

function metadataOf(document: unknown): Readonly<Record<string, unknown>> {
  const metadata = isMapping(document) ? document['metadata'] : undefined
  return isMapping(metadata) ? metadata : {}
}

function objectKeyOf(key: string): Pick<KubernetesObject, 'namespace' | 'name'> {
  const slash = key.indexOf('/')
  return { namespace: key.slice(0, slash), name: key.slice(slash + 1) }
}
