// The shapes of the replies of the control socket. An agent of another version may lack a field, or have it with another type. Both count
// as missing. A change of a shape is a new number of the control API (src/control-socket.ts).
import type {
  ConnectionRow,
  EndpointRow,
  PassSnapshot,
  ProblemSnapshot,
  RouteRow,
  ServiceRow,
  Snapshots,
} from '../inspect/index.js'

/** A value of JSON. `optional`: a field that some replies of this version lack. */
export type Shape =
  | 'string'
  | 'number'
  | 'boolean'
  | { readonly list: Shape }
  | { readonly each: Shape }
  | { readonly fields: Readonly<Record<string, Shape | { readonly optional: Shape }>> }

/** The shape of values of a type. A field that is added to the type, or removed, must be in the shape, or not. */
type ShapeOf<T> = [T] extends [string]
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

const text = 'string'
const texts = { list: text } as const
const names: ShapeOf<PassSnapshot['objects']> = { fields: { count: 'number', first: texts } }
const answer = { state: 'string', rules: texts } as const
const optionalText = { optional: 'string' } as const
const optionalNumber = { optional: 'number' } as const

const pass: ShapeOf<PassSnapshot> = {
  fields: {
    family: 'string',
    reason: text,
    start: 'string',
    durationMs: 'number',
    stages: {
      fields: { waitingMs: optionalNumber, compileMs: 'number', planMs: 'number', kernelMs: 'number' },
    },
    compiledMs: optionalNumber,
    objects: names,
    changed: names,
    isComplete: 'boolean',
    operations: {
      each: { each: { fields: { applied: 'number', refused: 'number', unanswered: 'number' } } },
    },
    firstOperations: texts,
    failures: texts,
  },
}

const problem: ShapeOf<ProblemSnapshot> = {
  fields: { level: 'string', problem: 'string', fields: { each: 'string' } },
}

const head = { service: 'string', port: 'string', protocol: 'string', family: 'string' } as const

const counters: ShapeOf<NonNullable<ServiceRow['counters']>> = {
  fields: {
    connections: optionalNumber,
    activeConnections: optionalNumber,
    inactiveConnections: optionalNumber,
    packetsIn: optionalNumber,
    packetsOut: optionalNumber,
    bytesIn: optionalNumber,
    bytesOut: optionalNumber,
  },
}

const serviceRow: ShapeOf<ServiceRow> = {
  fields: {
    ...head,
    clusterIP: optionalText,
    nodePort: 'number',
    externalIPs: texts,
    endpoints: { fields: { all: 'number', cluster: 'number', local: 'number' } },
    internal: optionalText,
    external: optionalText,
    conflicts: { optional: texts },
    counters: { optional: counters },
    since: optionalText,
  },
}

const choice: ShapeOf<EndpointRow['cluster']> = {
  fields: { isUsed: 'boolean', rule: 'string', text: 'string' },
}

const endpointRow: ShapeOf<EndpointRow> = {
  fields: {
    ...head,
    endpoint: 'string',
    node: 'string',
    conditions: { fields: { ready: 'boolean', serving: 'boolean', terminating: 'boolean' } },
    cluster: choice,
    local: choice,
    counters: { optional: counters },
  },
}

const routeRow: ShapeOf<RouteRow> = {
  fields: {
    ...head,
    frontend: 'string',
    verdict: 'string',
    reasons: { list: { fields: { rule: 'string', text: 'string' } } },
    backends: texts,
    counters: { optional: counters },
    kernel: { optional: texts },
  },
}

const connectionRow: ShapeOf<ConnectionRow> = {
  fields: {
    ...head,
    client: 'string',
    frontend: 'string',
    endpoint: optionalText,
    state: optionalText,
    timeoutSeconds: optionalNumber,
  },
}

/** The shape of each reply, by the name of its page. */
export const snapshotShapes: { readonly [Name in keyof Snapshots]: ShapeOf<Snapshots[Name]> } = {
  status: {
    fields: {
      version: 'string',
      commit: 'string',
      node: 'string',
      start: 'string',
      uptimeSeconds: 'number',
      mode: { fields: { active: 'string', configured: 'string', flavour: optionalText } },
      isInForce: 'boolean',
      families: {
        list: {
          fields: {
            family: 'string',
            isInForce: 'boolean',
            hasRefusals: 'boolean',
            isHealthy: 'boolean',
            lastSync: optionalText,
            servicePorts: 'number',
            endpoints: 'number',
          },
        },
      },
      source: { fields: { kind: 'string', kindsNotWatched: 'number', objectsNotApplied: 'number' } },
      drift: { list: { fields: { family: 'string', kind: 'string', count: 'number' } } },
      problemCount: 'number',
      problems: { list: problem },
      passes: { list: pass },
    },
  },
  configuration: { fields: { mode: 'string', node: 'string', documents: 'string' } },
  services: { fields: { items: { list: serviceRow } } },
  endpoints: { fields: { items: { list: endpointRow } } },
  routes: { fields: { items: { list: routeRow } } },
  history: { fields: { items: { list: pass } } },
  connections: { fields: { connections: { list: connectionRow }, total: 'number' } },
  explain: {
    fields: {
      client: { fields: { address: 'string', kind: 'string', text: 'string' } },
      destination: 'string',
      mode: 'string',
      verdict: 'string',
      service: { optional: { fields: { name: 'string', frontend: 'string' } } },
      endpoints: {
        list: {
          fields: {
            endpoint: 'string',
            node: optionalText,
            isCandidate: 'boolean',
            isMasqueraded: 'boolean',
            rule: 'string',
            reason: text,
          },
        },
      },
      steps: { list: { fields: { rule: optionalText, text: 'string' } } },
      firewall: { fields: answer },
      mark: { fields: { state: 'string', by: 'string' } },
      route: {
        fields: {
          state: 'string',
          inInterface: { optional: { fields: { name: 'string', isAssumed: 'boolean' } } },
          reasons: texts,
        },
      },
      objects: texts,
      kernel: { fields: { state: 'string', differences: texts } },
    },
  },
  log: { fields: { items: texts } },
  flags: { each: 'string' },
  metrics: { fields: { text: 'string' } },
}
