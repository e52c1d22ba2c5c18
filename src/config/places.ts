// Values in nested mappings, by the names on the way to them.
import { isMapping } from './value-types.js'

/** undefined: there is no value. */
export function valueAt(tree: unknown, place: readonly string[]): unknown {
  return place.reduce((found, name) => (isMapping(found) ? found[name] : undefined), tree)
}

/** A copy of `tree` with `value` at `place`. */
export function withValueAt(
  tree: Readonly<Record<string, unknown>>,
  [name = '', ...rest]: readonly string[],
  value: unknown,
): Readonly<Record<string, unknown>> {
  const inner = tree[name]
  const next = rest.length === 0 ? value : withValueAt(isMapping(inner) ? inner : {}, rest, value)
  return { ...tree, [name]: next }
}
