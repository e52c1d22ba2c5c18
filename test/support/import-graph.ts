// The rule for imports between rooms, and a reader of imports.

/** The flow: a room may import the rooms before it, never one after it. */
const flow = ['source', 'model', 'routing', 'engine', 'layers', 'modes']
/** Rooms beside the flow, each with the rooms that it may import. Rooms of the flow may import them. */
const beside: Readonly<Record<string, readonly string[]>> = {
  kernel: [],
  config: [],
  api: ['config'],
  host: ['kernel', 'config'],
  node: ['kernel', 'source', 'config'],
  server: ['config', 'node', 'model', 'engine'],
  events: ['api'],
  cli: ['config', 'commands'],
  metrics: [],
  process: [],
  inspect: ['model', 'routing', 'engine', 'kernel', 'config', 'node'],
  control: ['inspect', 'server', 'kernel', 'config'],
  commands: ['inspect'],
  bundle: [],
  doctor: ['kernel', 'config', 'host', 'api', 'inspect'],
  page: ['inspect', 'server'],
}
/** Rooms that must not import kernel types. Kubernetes objects end at engine/, and kernel types begin there. */
const withoutKernel = ['source', 'model', 'routing']
/** The programs: no file imports them. */
const programs = ['agent.ts', 'command.ts']
const rootFiles = [
  'address.ts',
  'clock.ts',
  'control-socket.ts',
  'errors.ts',
  'event.ts',
  'log.ts',
  'log-output.ts',
  'version.ts',
  'words.ts',
]
/** Every room may import metrics. agent may import every room. */
const [everywhere, wiring] = ['metrics', 'agent']
const roomsOfManyInterfaces = ['layers', 'modes']
/** The layer that all modes have: it knows none of the others. */
const commonLayer = 'src/layers/shared'

export interface Import {
  readonly from: string
  /** Path from the root of the tree, with `.ts`; for a package, the specifier. */
  readonly to: string
  /** Imports only types, which do not exist at run time. */
  readonly isType: boolean
}

/** Imports, re-exports and dynamic imports of a file. */
export function importsOf(path: string, text: string): readonly Import[] {
  const statement = /(?:\b(?:import|export)(\s+type)?\b[^';]*?\bfrom|\bimport)\s*\(?\s*'([^']+)'/g
  return [...text.matchAll(statement)].map(([, type, specifier = '']) => ({
    from: path,
    to: resolved(path, specifier),
    isType: type !== undefined,
  }))
}

function resolved(from: string, specifier: string): string {
  if (!specifier.startsWith('.')) return specifier
  const path = new URL(specifier, `file:///${from}`).pathname.slice(1)
  return path.replace(/\.js$/, '.ts')
}

/** The room's folder: `src/engine`, `src/modes/ipvs`; undefined for files in src/ itself and outside of src/. */
export function roomOf(path: string): string | undefined {
  const [top, room, inner, ...rest] = path.split('/')
  if (top !== 'src' || room === undefined || inner === undefined) return undefined
  return roomsOfManyInterfaces.includes(room) && rest.length > 0 ? `src/${room}/${inner}` : `src/${room}`
}

/** One sentence about an import that the rule forbids; undefined: the import is allowed. */
export function objection({ from, to }: Pick<Import, 'from' | 'to'>): string | undefined {
  if (!from.startsWith('src/') || !to.includes('/')) return undefined
  if (to.startsWith('test/') || to.startsWith('bench/'))
    return `${from} imports ${to}: src never imports tests`
  if (!to.startsWith('src/')) return undefined
  if (to.endsWith('/testing.ts')) return `${from} imports ${to}: it is for tests`
  const room = roomOf(from)
  const target = roomOf(to)
  if (isPure(from) && target !== undefined && !mayCompileFrom(to, target))
    return `${from} imports ${to}: compiling knows nothing of what drives it`
  if (target === undefined || target === room) return rootObjection(from, to)
  if (!to.endsWith('/index.ts')) return `${from} imports ${to}: only through the room's index.ts`
  if (room === undefined)
    return programs.includes(from.slice('src/'.length))
      ? undefined
      : `${from} imports ${to}: root files import no room`
  return mayImport(room, target) ? undefined : `${from} imports ${to}: against the flow`
}

function rootObjection(from: string, to: string): string | undefined {
  if (roomOf(to) !== undefined) return undefined
  const file = to.slice('src/'.length)
  if (programs.includes(file)) return `${from} imports ${to}: nothing imports a program`
  if (rootFiles.includes(file)) return undefined
  return `${from} imports ${to}: not one of ${rootFiles.join(', ')}`
}

function nameOf(room: string): string {
  return room.split('/')[1] ?? ''
}

function isPure(path: string): boolean {
  return /^src\/(layers|modes)\/[^/]+\/compile\//.test(path)
}

function mayCompileFrom(to: string, target: string): boolean {
  return (
    isPure(to) ||
    ['routing', 'model', 'kernel', 'config', 'node', 'layers', everywhere].includes(nameOf(target))
  )
}

function mayImport(from: string, to: string): boolean {
  const [room, target] = [nameOf(from), nameOf(to)]
  if (room === wiring || target === everywhere) return true
  // A mode never imports another one.
  if (room === 'modes' && target === 'modes') return false
  if (room === 'layers' && target === 'layers') return from !== commonLayer
  const own = beside[room]
  if (own !== undefined) return own.includes(target)
  if (target === 'api') return room === 'source'
  if (target === 'kernel') return !withoutKernel.includes(room)
  if (target === 'config' || target === 'node' || target === 'host') return true
  const [position, other] = [flow.indexOf(room), flow.indexOf(target)]
  return position >= 0 && other >= 0 && other < position
}

/**
 * The circles of a graph: each is a set of nodes from which every other one of the set can be reached, sorted. A type makes a circle as a
 * value does: none of the files can be read without the others.
 */
export function circlesOf(edges: readonly Pick<Import, 'from' | 'to'>[]): readonly (readonly string[])[] {
  const targets = new Map<string, Set<string>>()
  for (const { from, to } of edges) {
    if (from !== to) targets.set(from, (targets.get(from) ?? new Set()).add(to))
  }
  // Tarjan's strongly connected components.
  const [order, lowest] = [new Map<string, number>(), new Map<string, number>()]
  const [stack, circles]: [string[], string[][]] = [[], []]
  const visit = (node: string): number => {
    const place = order.size
    let low = place
    order.set(node, place)
    stack.push(node)
    for (const target of targets.get(node) ?? []) {
      const known = order.get(target)
      if (known === undefined) low = Math.min(low, visit(target))
      else if (stack.includes(target)) low = Math.min(low, lowest.get(target) ?? known)
    }
    lowest.set(node, low)
    if (low === place) {
      const circle = stack.splice(stack.indexOf(node))
      if (circle.length > 1) circles.push(circle.toSorted())
    }
    return low
  }
  for (const node of targets.keys()) if (!order.has(node)) visit(node)
  return circles
}
