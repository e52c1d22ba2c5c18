import { loadAll, YAMLException, type EventType, type State } from 'js-yaml'
import { ConfigError } from '../errors.js'
import { AliasCount } from './yaml-aliases.js'
import { kubernetesSchema } from './yaml-scalars.js'

/**
 * Returns the documents of YAML or JSON, read as Kubernetes reads them. Calls `onRepeated` with the path and the line of each repeated
 * field; the last one counts. Without `onRepeated` a repeated field is an error. Throws what `onRepeated` throws, and ConfigError with the
 * line and the column of a syntax error. Its message has no text of the file, which may be a secret that is no YAML at all.
 */
export function parseYaml(text: string, onRepeated?: (problem: ConfigError) => void): readonly unknown[] {
  if (text.trim() === '') throw new ConfigError('', 'is empty')
  const trail = onRepeated === undefined ? undefined : new Trail(onRepeated)
  const aliases = text.includes('&') && text.includes('*') ? new AliasCount() : undefined
  const listener = (event: EventType, state: State): void => {
    trail?.follow(event, state)
    if (event === 'open') return aliases?.begin()
    const problem = aliases?.end(state)
    if (problem !== undefined) throw new ConfigError(`line ${state.line + 1}`, problem)
  }
  try {
    return loadAll(text, null, {
      schema: kubernetesSchema,
      json: onRepeated !== undefined,
      ...(trail === undefined && aliases === undefined ? {} : { listener }),
    })
  } catch (error) {
    if (!(error instanceof YAMLException)) throw error
    // NB: an error of the whole stream has no mark.
    const { mark, reason } = error
    const where = mark === undefined ? '' : `line ${mark.line + 1}, column ${mark.column + 1}`
    throw new ConfigError(where, withoutContent(reason))
  }
}

/** The parser quotes tags, aliases and names of the file at the end of a sentence, behind one of these characters. */
function withoutContent(reason: string): string {
  return reason.replace(/ ?(?:"|!<|: ).*$/su, '')
}

/** A node whose end the parser has not reached. */
interface OpenNode {
  /** Number of ended nodes in it: keys and values in turn, or the items of a list. */
  children: number
  /** The last key, or every other item of a list. */
  last: unknown
  readonly keys: Set<unknown>
  /** Repeated keys with their lines. Only the end of the node shows whether it is a mapping; in a list these are items. */
  readonly repeated: { readonly key: string; readonly line: number }[]
}

/** The position of the parser in its document. The parser itself knows only the line. */
class Trail {
  readonly #onRepeated: (problem: ConfigError) => void
  readonly #open: OpenNode[] = []

  constructor(onRepeated: (problem: ConfigError) => void) {
    this.#onRepeated = onRepeated
  }

  follow(event: EventType, { result, kind, line }: Pick<State, 'result' | 'kind' | 'line'>): void {
    if (event === 'open') {
      this.#open.push({ children: 0, last: undefined, keys: new Set(), repeated: [] })
      return
    }
    const ended = this.#open.pop()
    if (ended !== undefined && kind === 'mapping') this.#report(ended)
    const parent = this.#open.at(-1)
    if (parent === undefined) return
    if (parent.children % 2 === 0) {
      parent.last = result
      if (parent.keys.has(result)) parent.repeated.push({ key: String(result), line: line + 1 })
      parent.keys.add(result)
    }
    parent.children++
  }

  /** Reports the repeated keys of the mapping that has just ended. */
  #report({ repeated }: OpenNode): void {
    for (const { key, line } of repeated)
      this.#onRepeated(new ConfigError(this.#pathOf(key), `is written twice (line ${line})`))
  }

  /** Path of a field of that mapping. A node without ended children is a list at its first item, or the same node again. */
  #pathOf(key: string): string {
    const steps = this.#open
      .filter(({ children }) => children > 0)
      .map(({ children, last }) => (typeof last === 'string' ? last : `[${children}]`))
    return [...steps, key].join('.').replaceAll('.[', '[')
  }
}
