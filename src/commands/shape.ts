// The shapes of replies. An agent of another version may lack a field, or have it with another type. Both count as missing.

/** A value of JSON. `optional`: a field that some replies of this version lack. */
export type Shape =
  | 'string'
  | 'number'
  | 'boolean'
  | { readonly list: Shape }
  | { readonly each: Shape }
  | { readonly fields: Readonly<Record<string, Shape | { readonly optional: Shape }>> }

/** The shape of values of a type. A field that is added to the type, or removed, must be in the shape, or not. */
export type ShapeOf<T> = [T] extends [string]
  ? 'string'
  : [T] extends [number]
    ? 'number'
    : [T] extends [boolean]
      ? 'boolean'
      : T extends readonly (infer Item)[]
        ? { readonly list: ShapeOf<Item> }
        : string extends keyof T
          ? { readonly each: ShapeOf<T[keyof T]> }
          : { readonly fields: { readonly [K in keyof T]-?: FieldShape<T, K> } }

type FieldShape<T, K extends keyof T> =
  object extends Pick<T, K>
    ? { readonly optional: ShapeOf<Exclude<T[K], undefined>> }
    : ShapeOf<Exclude<T[K], undefined>>

/** A value of the type, as far as the reply has it. A text may be one that this version does not know. */
export type Known<T> = [T] extends [string]
  ? string
  : [T] extends [number | boolean]
    ? T
    : T extends readonly (infer Item)[]
      ? readonly Known<Item>[]
      : string extends keyof T
        ? Readonly<Record<string, Known<T[keyof T]>>>
        : { readonly [K in keyof T]?: Known<Exclude<T[K], undefined>> | undefined }

/**
 * The parts of a value that have the shape; undefined: it has none. Adds the path of each missing part to `missing`, such as
 * `families.0.isHealthy`.
 */
export function knownOf(value: unknown, shape: Shape, missing: string[], path = ''): unknown {
  if (typeof shape !== 'string' && isOfKind(value, shape)) return partsOf(value, shape, missing, path)
  if (typeof value === shape) return value
  missing.push(path)
  return undefined
}

type Compound = Exclude<Shape, string>

function isOfKind(value: unknown, shape: Compound): value is object {
  return typeof value === 'object' && value !== null && Array.isArray(value) === 'list' in shape
}

function partsOf(value: object, shape: Compound, missing: string[], path: string): unknown {
  const names = 'fields' in shape ? Object.keys(shape.fields) : Object.keys(value)
  const parts = names.flatMap((name) => {
    const part: unknown = Object.hasOwn(value, name) ? Reflect.get(value, name) : undefined
    const own = 'fields' in shape ? shape.fields[name] : 'list' in shape ? shape.list : shape.each
    const isOptional = typeof own === 'object' && 'optional' in own
    if (own === undefined || (isOptional && part === undefined)) return []
    const inner = isOptional ? own.optional : own
    const read = knownOf(part, inner, missing, path === '' ? name : `${path}.${name}`)
    return read === undefined ? [] : [[name, read] as const]
  })
  return 'list' in shape ? parts.map(([, part]) => part) : Object.fromEntries(parts)
}
