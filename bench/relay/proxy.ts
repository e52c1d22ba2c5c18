// A relay with N listeners on loopback, ports 10001 and up, each a service of its own with one endpoint: node proxy.js N ENDPOINT_PORT.
// Prints {"openMs": .., "rssMiB": ..}, then runs until it is killed.
import { parseIpAddress } from '../../src/address.js'
import { openKernel, type RelayOp } from '../../src/kernel/index.js'
import { firstPort } from './ports.js'

const [count = Number.NaN, endpointPort = Number.NaN] = process.argv.slice(2).map(Number)
const address = parseIpAddress('127.0.0.1')
if (address === undefined) throw new Error('127.0.0.1 is an address')
const { relay } = openKernel()
await relay.configure({ nearNetworks: [], nearInterfaces: [], udpIdleMs: 250, nodePortAddresses: [] })
const ops: RelayOp[] = []
for (let index = 0; index < count; index++) {
  const id = index + 1
  const endpoint = { address, port: endpointPort }
  ops.push(
    {
      op: 'set-service',
      name: 'a',
      service: {
        id,
        affinitySeconds: undefined,
        clusterEndpoints: [endpoint],
        flowEndpoints: [endpoint],
        localEndpoints: [],
        sourceRanges: [],
      },
    },
    {
      op: 'set-listener',
      listener: {
        protocol: 'tcp',
        address,
        port: firstPort + index,
        service: id,
        near: 'cluster',
        far: 'cluster',
        hasSourceRanges: false,
      },
    },
  )
}
const rssBefore = process.memoryUsage.rss()
const start = performance.now()
const { failures } = await relay.apply(ops)
if (failures.length > 0) throw new Error(`${failures.length} failures: ${failures[0]?.error.message}`)
const openMs = performance.now() - start
const rssMiB = (process.memoryUsage.rss() - rssBefore) / 2 ** 20
console.log(JSON.stringify({ openMs, rssMiB }))
// The reference keeps the relay: its threads end when it is collected.
setInterval(() => void relay.counters(), 60_000)
