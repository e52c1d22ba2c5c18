// The relay beside a plain C proxy and a direct connection, in one namespace on loopback:
//   node run.js traffic | listeners | faults SPLICE_PROXY STREAM_LOAD FLOOD
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { Namespace } from '../../test/support/namespaces.js'
import { median } from '../stage/figures.js'
import { measureFaults } from './faults.js'
import { firstPort } from './ports.js'

const [part = '', spliceProxy = '', streamLoad = '', flood = ''] = process.argv.slice(2)
const endpointPort = 9000
const proxyPort = 9100
const rounds = 7
const seconds = 2
const connections = 8000
const requests = 5000
/** The length of a tick of /proc/PID/stat, on every supported machine. */
const tickSeconds = 0.01

const relayProgram = fileURLToPath(new URL('./proxy.js', import.meta.url))
const Figures = Type.Record(Type.String(), Type.Number())

interface Way {
  readonly name: string
  readonly ports: readonly number[]
  /** The process of the proxy. */
  readonly pid: number | undefined
}

/** CPU time of a process with its threads. */
function cpuSeconds(pid: number | undefined): number {
  if (pid === undefined) return Number.NaN
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
  return (Number(fields[11]) + Number(fields[12])) * tickSeconds
}

async function load(
  place: Namespace,
  ...words: readonly (string | number)[]
): Promise<Record<string, number>> {
  return Value.Parse(Figures, JSON.parse(await place.must(streamLoad, ...words.map(String))))
}

async function measureWay(place: Namespace, { ports, pid }: Way): Promise<Record<string, number>> {
  const start = cpuSeconds(pid)
  const { bytesPerSecond = Number.NaN } = await load(place, 'bytes', seconds, 16, ...ports)
  const middle = cpuSeconds(pid)
  const { perSecond = Number.NaN } = await load(place, 'connects', connections, ...ports)
  const end = cpuSeconds(pid)
  const { p50Us = Number.NaN } = await load(place, 'latency', requests, ports[0] ?? 0)
  return {
    bytesPerSecond,
    bytesPerCpuSecond: (bytesPerSecond * seconds) / (middle - start),
    connectsPerSecond: perSecond,
    connectsPerCpuSecond: connections / (end - middle),
    latencyUs: p50Us,
  }
}

/** Rounds go over all ways in turn, each beginning with another one. */
async function measureTraffic(place: Namespace): Promise<unknown> {
  const server = place.start(streamLoad, 'serve', String(endpointPort))
  await server.line((line) => line === 'ready')
  const floor = place.start(spliceProxy, String(proxyPort), String(endpointPort), '2')
  await floor.line((line) => line === 'ready')
  const relay = place.start(process.execPath, relayProgram, '16', String(endpointPort))
  await relay.line(() => true)
  const sixteen = Array.from({ length: 16 }, (_, index) => firstPort + index)
  const ways: readonly Way[] = [
    { name: 'direct', ports: [endpointPort], pid: undefined },
    { name: 'floor', ports: [proxyPort], pid: floor.pid },
    { name: 'one', ports: [firstPort], pid: relay.pid },
    { name: 'sixteen', ports: sixteen, pid: relay.pid },
  ]
  const found = new Map<string, Record<string, number>[]>(ways.map(({ name }) => [name, []]))
  for (let round = 0; round < rounds; round++)
    for (const way of [...ways.slice(round % ways.length), ...ways.slice(0, round % ways.length)])
      found.get(way.name)?.push(await measureWay(place, way))
  const shareOfFloor = (name: string, field: string): number =>
    median(
      (found.get(name) ?? []).map(
        (figures, i) => (figures[field] ?? Number.NaN) / (found.get('floor')?.[i]?.[field] ?? Number.NaN),
      ),
    )
  const medianOf = (name: string, field: string): number =>
    median((found.get(name) ?? []).map((figures) => figures[field] ?? Number.NaN))
  return Object.fromEntries(
    ways.map(({ name }) => [
      name,
      {
        bytesPerSecond: medianOf(name, 'bytesPerSecond'),
        bytesOfFloor: shareOfFloor(name, 'bytesPerSecond'),
        cpuBytesOfFloor: shareOfFloor(name, 'bytesPerCpuSecond'),
        connectsPerSecond: medianOf(name, 'connectsPerSecond'),
        connectsPerCpuSecond: medianOf(name, 'connectsPerCpuSecond'),
        latencyUs: medianOf(name, 'latencyUs'),
      },
    ]),
  )
}

/** Time and memory of the process. The kernel's sockets are not in it. */
async function measureListeners(place: Namespace): Promise<unknown> {
  const figures: Record<string, unknown> = {}
  for (const count of [1000, 10_000]) {
    const relay = place.start(process.execPath, relayProgram, String(count), String(endpointPort))
    figures[count] = Value.Parse(Figures, JSON.parse(await relay.line(() => true)))
    await relay.kill()
  }
  return figures
}

async function withPlace(measure: (place: Namespace) => Promise<unknown>): Promise<unknown> {
  const place = await Namespace.create('bench')
  try {
    return await measure(place)
  } finally {
    await place.close()
  }
}

const figures =
  part === 'faults'
    ? await measureFaults(flood)
    : await withPlace(part === 'traffic' ? measureTraffic : measureListeners)
console.log(JSON.stringify(figures))
