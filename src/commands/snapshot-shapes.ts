// The shapes of the replies of the control socket. A change of one is a new number of the control API (src/control-socket.ts).
import type {
  ConnectionRow,
  EndpointRow,
  PassSnapshot,
  ProblemSnapshot,
  RouteRow,
  ServiceRow,
  Snapshots,
} from '../inspect/index.js'
import type { ShapeOf } from './shape.js'

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
