// The interfaces of rooms: what an index.ts exports, and who imports it.
import { importsOf, roomOf } from './import-graph.js'
import { treeText } from './tree.js'

/** A name that a file imports from another one. */
export interface Use {
  readonly from: string
  /** Path from the root of the tree, with `.ts`. */
  readonly to: string
  readonly name: string
}

const list = /\b(import|export)(?:\s+type)?\s*\{([^}]*)\}(?:\s*from\s*'([^']+)')?/g
const awaited = /\{([^{}]*)\}\s*=\s*\(?\s*await\s+import\(\s*'([^']+)'/g
const declared =
  /^export\s+(?:abstract\s+|async\s+)*(?:const|let|function\*?|class|interface|type|enum)\s+(\w+)/gm

/** `a, type B, c as d` as pairs: the name, and the name that it gets. */
function namesIn(text: string): readonly (readonly [name: string, as: string])[] {
  return text
    .replaceAll(/\/\*.*?\*\/|\/\/.*$/gms, '')
    .split(',')
    .map((part) => /^\s*(?:type\s+)?(\w+)(?:(?:\s+as\s+|\s*:\s*)(\w+))?\s*$/.exec(part))
    .filter((match) => match !== null)
    .map(([, name = '', as = name]) => [name, as] as const)
}

function pathOf(from: string, specifier: string): string {
  const [found] = importsOf(from, `import '${specifier}'`)
  return found === undefined ? '' : found.to.replace(/^out\/ts\//, '')
}

/** The names that a file exports, its own and those of other files. */
export function exportsOf(path: string, read: (path: string) => string = treeText): ReadonlySet<string> {
  const text = read(path)
  const names = new Set<string>()
  for (const [, kind, content = ''] of text.matchAll(list))
    if (kind === 'export') for (const [, as] of namesIn(content)) names.add(as)
  for (const [, name = ''] of text.matchAll(declared)) names.add(name)
  for (const [, as, specifier = ''] of text.matchAll(
    /^export(?:\s+type)?\s*\*\s*(?:as\s+(\w+)\s+)?from\s*'([^']+)'/gm,
  )) {
    if (as !== undefined) names.add(as)
    else for (const name of exportsOf(pathOf(path, specifier), read)) names.add(name)
  }
  return names
}

/** The names that a file imports, by static and dynamic imports and by re-exports. */
export function usesOf(from: string, text: string): readonly Use[] {
  const found = [
    ...text.matchAll(list),
    ...[...text.matchAll(awaited)].map(([all, ...rest]) => [all, '', ...rest]),
  ]
  return found.flatMap(([, , content = '', specifier]) =>
    specifier === undefined
      ? []
      : namesIn(content).map(([name]) => ({ from, to: pathOf(from, specifier), name })),
  )
}

/**
 * The names of an index.ts that no other room and no script imports. `uses`: those of the whole tree. Tests and benchmarks do not count: they
 * have the room's testing.ts.
 */
export function unusedOf(
  index: string,
  uses: readonly Use[],
  read?: (path: string) => string,
): readonly string[] {
  const room = roomOf(index)
  const used = new Set(
    uses
      .filter(({ from, to }) => to === index && (from.startsWith('src/') || from.startsWith('scripts/')))
      .filter(({ from }) => roomOf(from) !== room)
      .map(({ name }) => name),
  )
  return [...exportsOf(index, read)].filter((name) => !used.has(name))
}
