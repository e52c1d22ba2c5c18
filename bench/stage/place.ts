// The place of a measurement: a network namespace in which every VIP and every endpoint address is local. One server answers for all
// endpoints, and a VIP without rules refuses connections at once.
import { setTimeout as sleep } from 'node:timers/promises'
import { Namespace, setSysctls } from '../../test/support/namespaces.js'
import type { Program } from '../../test/support/processes.js'

/** VIPs and endpoints of bench/state.ts, endpoints of bench/api/tenants.ts, and further addresses of clients. */
const networks = ['10.96.0.0/12', '10.128.0.0/12', '10.192.0.0/10', '10.64.0.0/12']
const clientAddress = '192.0.2.1'
/** The port of pods. */
export const realPort = 8080
/** Limit for an answer, far above the expected times. */
const answerLimitMs = 60_000

/** A new place without a server. */
export async function openPlace(): Promise<Namespace> {
  const place = await Namespace.create('bench')
  await place.ip(
    `address add ${clientAddress}/32 dev lo`,
    ...networks.map((network) => `route add local ${network} dev lo src ${clientAddress}`),
  )
  // Enough ports for the connections of a probe while conntrack remembers old ones.
  await setSysctls(place, 'net.ipv4.ip_local_port_range=1024 65535')
  return place
}

/** Runs `use` in a new place, which ends afterwards. */
export async function withPlace<T>(use: (place: Namespace) => Promise<T>): Promise<T> {
  const place = await openPlace()
  try {
    return await use(place)
  } finally {
    await place.close()
  }
}

/** Starts the server, which answers with the address that the client reached. */
export async function serve(place: Namespace, connect: string): Promise<void> {
  const server = place.start(connect, 'serve', String(realPort))
  await server.line((line) => line === 'ready')
}

export interface Target {
  readonly address: string
  readonly port: number
  /** The endpoint that must answer; undefined: any. */
  readonly expected: string | undefined
}

/** Connects repeatedly until the expected endpoint answers. */
export class Prober {
  readonly #program: Program
  #asked = 0

  /** `burst`: attempts per target and tick, if the expected endpoint is one of several. */
  constructor(
    place: Namespace,
    connect: string,
    { tickUs, burst }: { readonly tickUs: number; readonly burst: number },
  ) {
    this.#program = place.start(connect, 'probe', String(tickUs), String(burst))
  }

  /** Time of the first expected answer, in nanoseconds of process.hrtime.bigint(). */
  async answered(target: Target): Promise<bigint> {
    const seenNs = await this.answeredWithin(answerLimitMs, target)
    if (seenNs !== undefined) return seenNs
    throw new Error(`${target.address}:${target.port} was not answered by ${target.expected ?? 'any'}`)
  }

  /** As `answered`. undefined: there was no such answer within so many milliseconds. The client tries on. */
  async answeredWithin(
    limitMs: number,
    { address, port, expected = 'any' }: Target,
  ): Promise<bigint | undefined> {
    return await this.#seen(limitMs, `${address} ${port} ${expected}`)
  }

  /** The moment of the first connection that is refused, as `answered`. */
  async refused(address: string, port: number): Promise<bigint> {
    const seenNs = await this.#seen(answerLimitMs, `${address} ${port} none`)
    if (seenNs !== undefined) return seenNs
    throw new Error(`${address}:${port} was not refused`)
  }

  async #seen(limitMs: number, target: string): Promise<bigint | undefined> {
    const id = `${this.#asked++}`
    this.#program.write(`${id} ${target}\n`)
    const limit = new AbortController()
    try {
      const line = await Promise.race([
        this.#program.line((answer) => answer.startsWith(`${id} `)),
        sleep(limitMs, undefined, { signal: limit.signal }),
      ])
      return line === undefined ? undefined : BigInt(line.slice(id.length + 1))
    } finally {
      limit.abort()
    }
  }
}
