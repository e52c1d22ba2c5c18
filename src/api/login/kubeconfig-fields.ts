// Reads the fields of a kubeconfig one by one. Fields that are not read may hold any value.
import { ConfigError } from '../../errors.js'

/** A mapping of the file. As in Go, absent, null and blank are equal. Every read throws ConfigError with the field's path. */
export class KubeconfigFields {
  readonly #file: string
  readonly #path: string
  readonly #written: object

  /** `path` is empty for the whole document. */
  constructor(file: string, path: string, written: unknown) {
    this.#file = file
    this.#path = path
    if (typeof written !== 'object' || written === null || Array.isArray(written)) {
      throw this.error('', 'must be a mapping of fields')
    }
    this.#written = written
  }

  /** The text of a field; blank: absent. */
  text(name: string): string {
    const value = this.#value(name) ?? ''
    if (typeof value === 'string') return value
    throw this.error(name, 'must be text (quote it)')
  }

  requiredText(name: string, meaning: string): string {
    const value = this.text(name)
    if (value !== '') return value
    throw this.error(name, `is missing: must be ${meaning}`)
  }

  flag(name: string): boolean {
    const value = this.#value(name) ?? false
    if (typeof value === 'boolean') return value
    throw this.error(name, 'must be true or false')
  }

  mapping(name: string): KubeconfigFields | undefined {
    const value = this.#value(name)
    return value === undefined ? undefined : new KubeconfigFields(this.#file, this.#joined(name), value)
  }

  mappings(name: string): readonly KubeconfigFields[] {
    return this.#list(name).map(
      (item, i) => new KubeconfigFields(this.#file, `${this.#joined(name)}[${i}]`, item),
    )
  }

  texts(name: string): readonly string[] {
    return this.#list(name).map((item, i) => {
      if (typeof item === 'string') return item
      throw this.error(`${name}[${i}]`, 'must be text (quote it)')
    })
  }

  has(name: string): boolean {
    return this.#value(name) !== undefined
  }

  /** The value as written. */
  anything(name: string): unknown {
    return this.#value(name)
  }

  /** An error with the path of a field, or of this mapping if `name` is empty. */
  error(name: string, problem: string): ConfigError {
    const path = this.#joined(name)
    return new ConfigError(path === '' ? this.#file : `${this.#file}: ${path}`, problem)
  }

  #list(name: string): readonly unknown[] {
    const value = this.#value(name) ?? []
    if (Array.isArray(value)) return value
    throw this.error(name, 'must be a list')
  }

  #value(name: string): unknown {
    return Reflect.get(this.#written, name) ?? undefined
  }

  #joined(name: string): string {
    return [this.#path, name].filter((part) => part !== '').join('.')
  }
}
