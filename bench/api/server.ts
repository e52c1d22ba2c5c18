// An API server that uses almost no CPU time during a measurement, because all answers are encoded in advance.
//   node server.js SERVICES REALS FOLDER
// Writes its certificate to FOLDER/cert.pem and prints `port N`. Input lines: `churn COUNT PERSECOND` sends changes of EndpointSlices and
// then prints `done`; `change` sends one change and then prints `VIP ENDPOINT`; `tenant TENANT` adds the objects of a tenant of tenants.ts
// and prints `done`; `storm COUNT PERSECOND TENANT` prints `done`, and then sends the tenant's changes beside other commands;
// `alter CHANGE TENANT` sends one of them and then prints when.
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:https'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Document, Kind } from '../../test/support/api-shapes.js'
import { protobufWriter } from '../../test/support/api-writer.js'
import { makeCertificate } from '../../test/support/certificates.js'
import { type Change, changedService, changedSlice, streamedList, withVersion } from './cluster.js'
import { Tenant } from './tenants.js'

const [services = '0', reals = '1', folder = ''] = process.argv.slice(2)
const size = { services: Number(services), reals: Number(reals) }
const kinds: Readonly<Record<string, Kind>> = {
  '/api/v1/services': 'Service',
  '/apis/discovery.k8s.io/v1/endpointslices': 'EndpointSlice',
  '/api/v1/nodes': 'Node',
}
const lists = new Map(Object.values(kinds).map((kind) => [kind, streamedList(size, kind)]))
const watches = new Map<ServerResponse, Kind>()
/** API servers send a bookmark about every minute. */
const bookmarkPeriodMs = 30_000
let changes = 0
/** Services that are there beside those of the list. */
let added = 0

function serve(request: IncomingMessage, response: ServerResponse): void {
  const { pathname, searchParams } = new URL(request.url ?? '/', 'https://server')
  const kind = kinds[pathname]
  if (kind === undefined) return void response.writeHead(404).end()
  response.writeHead(200, { 'content-type': protobufWriter.watchType })
  watches.set(response, kind)
  response.on('close', () => watches.delete(response))
  if (!searchParams.has('resourceVersion')) void send(response, lists.get(kind) ?? [])
}

/** Sends the pieces. Waits until the client has read, like a real server. */
async function send(response: ServerResponse, pieces: readonly Buffer[]): Promise<void> {
  for (const piece of pieces) {
    if (!response.write(piece)) await new Promise((resolve) => response.once('drain', resolve))
  }
}

/** Sends each event to the watches of its kind. */
function sendChange({ events }: Pick<Change, 'events'>): void {
  for (const [kind, event] of events)
    for (const [watch, followed] of watches) if (followed === kind) watch.write(event)
}

function sendBookmarks(): void {
  const metadata = { resourceVersion: String(size.services + 1 + changes) }
  for (const [watch, kind] of watches) watch.write(protobufWriter.event('BOOKMARK', kind, { metadata }))
}

/** Sends changes at an even rate, even if timers are late. */
async function sendEvenly(prepared: readonly Pick<Change, 'events'>[], perSecond: number): Promise<void> {
  const start = performance.now()
  for (let sent = 0; sent < prepared.length;) {
    const due = Math.min(prepared.length, Math.floor(((performance.now() - start) / 1000) * perSecond))
    for (const change of prepared.slice(sent, due)) sendChange(change)
    sent = due
    await sleep(1)
  }
}

async function obey(line: string): Promise<string> {
  const [command = '', ...words] = line.split(' ')
  const [first = 0, second = 0] = words.map(Number)
  if (command === 'churn') {
    await sendEvenly(
      Array.from({ length: first }, () => changedSlice(size, changes++)),
      second,
    )
    return 'done'
  }
  if (command === 'tenant') {
    for (const [kind, document] of new Tenant(words.join(' ')).objects())
      sendChange({ events: [tenantEvent('ADDED', kind, document)] })
    return 'done'
  }
  if (command === 'storm') {
    const tenant = new Tenant(words.slice(2).join(' '))
    void sendEvenly(
      Array.from({ length: first }, (_, i) => changeOf(tenant, i + 1)),
      second,
    )
    return 'done'
  }
  if (command === 'alter') {
    const change = changeOf(new Tenant(words.slice(1).join(' ')), first)
    const sentNs = process.hrtime.bigint()
    sendChange(change)
    return String(sentNs)
  }
  const change = nextChange(command)
  const sentNs = process.hrtime.bigint()
  sendChange(change)
  return `${change.vip} ${change.endpoint} ${sentNs}`
}

/** Change number `change` of the tenant. */
function changeOf(tenant: Tenant, change: number): Pick<Change, 'events'> {
  const [kind, document] = tenant.changed(change)
  return { events: [tenantEvent('MODIFIED', kind, document)] }
}

function tenantEvent(type: 'ADDED' | 'MODIFIED', kind: Kind, document: Document): readonly [Kind, Buffer] {
  return [kind, protobufWriter.event(type, kind, withVersion(document, nextVersion()))]
}

/** As the versions in cluster.ts. */
function nextVersion(): number {
  return size.services + 2 + changes++
}

function nextChange(command: string | undefined): Change {
  const change = changes++
  if (command === 'add')
    return changedService(size, { index: size.services + added++, type: 'ADDED', change })
  if (command === 'remove')
    return changedService(size, { index: size.services + --added, type: 'DELETED', change })
  return changedSlice(size, change)
}

setInterval(sendBookmarks, bookmarkPeriodMs)
const certificate = makeCertificate()
writeFileSync(join(folder, 'cert.pem'), certificate.cert)
const server = createServer(certificate, serve)
await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
const address = server.address()
if (typeof address === 'string' || address === null) throw new Error('the server has no port')
process.stdout.write(`port ${address.port}\n`)
for await (const line of createInterface({ input: process.stdin }))
  process.stdout.write(`${await obey(line)}\n`)
process.exit(0)
