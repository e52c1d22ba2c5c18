// Events (events.k8s.io/v1) of a fake API server. It refuses Events by the rules of a real server
// (pkg/apis/core/validation/events.go) that the agent could break.
import { documentOf, type Document } from './api-shapes.js'

export interface EventRequest {
  readonly method: string
  /** `NAMESPACE`, or `NAMESPACE/NAME`. */
  readonly target: string
  readonly contentType: string
  readonly body: Document
}

export interface EventReply {
  readonly code: number
  readonly body: Document
}

const prefix = '/apis/events.k8s.io/v1/namespaces/'
const subdomain = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/
const microTime = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/

export class FakeEvents {
  /** All events in the order of arrival, accepted or not. */
  readonly requests: EventRequest[] = []
  /** The stored Events by `namespace/name`, in the order of their creation. */
  readonly stored = new Map<string, Document>()
  /** Called with each created or changed Event. */
  onStored: (event: Document) => void = () => undefined

  static isPath(path: string): boolean {
    return path.startsWith(prefix) && path.slice(prefix.length).split('/')[1] === 'events'
  }

  note(asked: { method: string; path: string; contentType: string; text: string }): EventRequest {
    const { method, path, contentType, text } = asked
    const [namespace = '', , ...name] = path.slice(prefix.length).split('/').map(decodeURIComponent)
    const request = {
      method,
      target: [namespace, ...name].join('/'),
      contentType,
      body: documentOf(JSON.parse(text)),
    }
    this.requests.push(request)
    return request
  }

  answer({ method, target, contentType, body }: EventRequest): EventReply {
    const isPatch = method === 'PATCH'
    const name = String(documentOf(body['metadata'])['name'])
    const key = isPatch ? target : `${target}/${name}`
    const former = this.stored.get(key)
    if (isPatch && former === undefined)
      return refused(404, 'NotFound', `events.events.k8s.io "${key}" not found`)
    if (!isPatch && former !== undefined) return refused(409, 'AlreadyExists', `"${key}" already exists`)
    if (contentType !== `application/${isPatch ? 'strategic-merge-patch+' : ''}json`)
      return refused(415, 'UnsupportedMediaType', contentType)
    const event = { ...former, ...body }
    const problem = problemOf(event)
    if (problem !== undefined) return refused(422, 'Invalid', problem)
    this.stored.set(key, event)
    this.onStored(event)
    return { code: isPatch ? 200 : 201, body: event }
  }
}

function refused(code: number, reason: string, message: string): EventReply {
  return { code, body: { kind: 'Status', apiVersion: 'v1', code, reason, message } }
}

/** The reason for which a real server would refuse the Event; undefined: it would accept it. */
function problemOf(event: Document): string | undefined {
  const [metadata, regarding] = [documentOf(event['metadata']), documentOf(event['regarding'])]
  const text = (field: string): string => {
    const value = event[field]
    return typeof value === 'string' ? value : ''
  }
  const name = String(metadata['name'])
  const series = event['series'] === undefined ? undefined : documentOf(event['series'])
  const rules: Readonly<Record<string, boolean>> = {
    'metadata.name': subdomain.test(name) && name.length <= 253,
    'metadata.namespace': metadata['namespace'] === (regarding['namespace'] ?? 'default'),
    eventTime: microTime.test(text('eventTime')),
    type: ['Normal', 'Warning'].includes(text('type')),
    reportingController: text('reportingController') !== '',
    reportingInstance: text('reportingInstance') !== '' && text('reportingInstance').length <= 128,
    action: text('action') !== '' && text('action').length <= 128,
    reason: text('reason') !== '' && text('reason').length <= 128,
    note: Buffer.byteLength(text('note')) <= 1024,
    'series.count': series === undefined || Number(series['count']) >= 2,
    'series.lastObservedTime': series === undefined || microTime.test(String(series['lastObservedTime'])),
  }
  return Object.entries(rules).find(([, holds]) => !holds)?.[0]
}
