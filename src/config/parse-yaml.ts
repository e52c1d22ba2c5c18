import { CORE_SCHEMA, loadAll, YAMLException, type EventType, type State } from 'js-yaml'
import { ConfigError } from '../errors.js'

/**
 * The documents of YAML or JSON. Throws ConfigError with the line of what cannot be read, and with the path of a field that is there
 * twice.
 */
export function parseYaml(text: string): readonly unknown[] {
  if (text.trim() === '') throw new ConfigError('', 'is empty')
  const trail = new Trail()
  try {
    return loadAll(text, null, {
      schema: CORE_SCHEMA,
      listener(event, state) {
        trail.follow(event, state)
      },
    })
  } catch (error) {
    if (!(error instanceof YAMLException)) throw error
    // NB: there is no mark where the parser gives up on the whole stream.
    const { mark, reason } = error
    const line = mark === undefined ? '' : `line ${mark.line + 1}`
    if (reason === 'duplicated mapping key') throw new ConfigError(trail.path, `is written twice (${line})`)
    throw new ConfigError(line, reason)
  }
}

/** A node of the text that is not at its end. */
interface OpenNode {
  /** Ended nodes in it: keys and values in turn, or the items of a list. */
  children: number
  /** The last key, or another item of a list. */
  last: unknown
}

/** Where in its document the parser is. The parser itself knows only the line. */
class Trail {
  readonly #open: OpenNode[] = [{ children: 0, last: undefined }]

  follow(event: EventType, { result }: Pick<State, 'result'>): void {
    if (event === 'open') {
      this.#open.push({ children: 0, last: undefined })
      return
    }
    this.#open.pop()
    const parent = this.#open.at(-1)
    if (parent === undefined) return
    if (parent.children % 2 === 0) parent.last = result
    parent.children++
  }

  /** Of the last field; a node of which nothing has ended is a list at its first item, or the same node once more. */
  get path(): string {
    const steps = this.#open
      .slice(1)
      .filter(({ children }) => children > 0)
      .map(({ children, last }) => (typeof last === 'string' ? last : `[${children}]`))
    return steps.join('.').replaceAll('.[', '[')
  }
}
