// A minimal watch client in Node: opens the watches over TLS and drops all received data. Started like bench/api/follow.ts.
import { readFileSync } from 'node:fs'
import { get } from 'node:https'
import { createInterface } from 'node:readline'

const [server = '', caFile = ''] = process.argv.slice(3)
const ca = readFileSync(caFile)
let events = 0
for (const path of ['/api/v1/services', '/apis/discovery.k8s.io/v1/endpointslices']) {
  get(new URL(path, server), { ca }, (response) => response.on('data', () => (events += 1)))
}
createInterface({ input: process.stdin }).on('line', () => {
  const { user, system } = process.cpuUsage()
  process.stdout.write(`now ${JSON.stringify({ cpuMs: (user + system) / 1000, events })}\n`)
})
