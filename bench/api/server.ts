// An API server that uses almost no CPU time during a measurement, because all answers are encoded in advance.
//   node server.js SERVICES REALS FOLDER
// Writes its certificate to FOLDER/cert.pem and prints `port N`. Input lines: `churn COUNT PERSECOND` sends changes of EndpointSlices and
// then prints `done`; `change` sends one change and then prints `VIP ENDPOINT`; `wide PORTS ENDPOINTS` adds the Service of wide.ts and
// prints `done`; `storm PORTS ENDPOINTS COUNT PERSECOND` prints `done`, and then sends changes of its slice beside other commands.
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:https'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Kind } from '../../test/support/api-shapes.js'
import { protobufWriter } from '../../test/support/api-writer.js'
import { makeCertificate } from '../../test/support/certificates.js'
import { type Change, changedService, changedSlice, streamedList } from './cluster.js'
import { addedWide, changedWide } from './wide.js'

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
  const [command, ...words] = line.split(' ')
  const [first = 0, second = 0, count = 0, perSecond = 0] = words.map(Number)
  const wide = { ports: first, endpoints: second }
  if (command === 'churn') {
    await sendEvenly(
      Array.from({ length: first }, () => changedSlice(size, changes++)),
      second,
    )
    return 'done'
  }
  if (command === 'wide') {
    sendChange({ events: addedWide(wide, nextVersion()) })
    return 'done'
  }
  if (command === 'storm') {
    const prepared = Array.from({ length: count }, (_, i) => ({
      events: [changedWide(wide, i + 1, nextVersion())],
    }))
    void sendEvenly(prepared, perSecond)
    return 'done'
  }
  const change = nextChange(command)
  const sentNs = process.hrtime.bigint()
  sendChange(change)
  return `${change.vip} ${change.endpoint} ${sentNs}`
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
