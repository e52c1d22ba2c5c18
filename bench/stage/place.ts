// Where everything is measured: a network namespace of its own, in which every VIP and every endpoint address is local, so
// that one server answers for all of them and a VIP without rules refuses at once.
import { setTimeout as sleep } from 'node:timers/promises'
import { Namespace, setSysctls } from '../../test/support/namespaces.js'
import type { Program } from '../../test/support/processes.js'

/** VIPs and endpoints of bench/state.ts. */
const networks = ['10.96.0.0/12', '10.128.0.0/12']
const clientAddress = '192.0.2.1'
/** Where pods listen. */
export const realPort = 8080
/** Far above what is waited for: who is not answered by then never is. */
const answerLimitMs = 60_000

/** A fresh one, in which connections can be made, and nothing serves them yet. */
export async function openPlace(): Promise<Namespace> {
  const place = await Namespace.create('bench')
  await place.ip(
    `address add ${clientAddress}/32 dev lo`,
    ...networks.map((network) => `route add local ${network} dev lo src ${clientAddress}`),
  )
  // Room for as many connections as a probe makes while old ones are remembered.
  await setSysctls(place, 'net.ipv4.ip_local_port_range=1024 65535')
  return place
}

/** Runs `use` in a fresh place, which ends with it. */
export async function withPlace<T>(use: (place: Namespace) => Promise<T>): Promise<T> {
  const place = await openPlace()
  try {
    return await use(place)
  } finally {
    await place.close()
  }
}

/** Starts the server that tells each client which address it reached. */
export async function serve(place: Namespace, connect: string): Promise<void> {
  const server = place.start(connect, 'serve', String(realPort))
  await server.line((line) => line === 'ready')
}

export interface Target {
  readonly address: string
  readonly port: number
  /** The endpoint that has to answer; undefined: any. */
  readonly expected: string | undefined
}

/** Connects again and again, until the right endpoint answers. */
export class Prober {
  readonly #program: Program
  #asked = 0

  /** `burst`: tries of each target per tick, where one of several endpoints is waited for. */
  constructor(
    place: Namespace,
    connect: string,
    { tickUs, burst }: { readonly tickUs: number; readonly burst: number },
  ) {
    this.#program = place.start(connect, 'probe', String(tickUs), String(burst))
  }

  /** The moment of the first right answer: nanoseconds of CLOCK_MONOTONIC, as process.hrtime.bigint(). */
  async answered({ address, port, expected = 'any' }: Target): Promise<bigint> {
    return await this.#seen(address, port, expected)
  }

  /** The moment of the first connection that is refused, as `answered`. */
  async refused(address: string, port: number): Promise<bigint> {
    return await this.#seen(address, port, 'none')
  }

  async #seen(address: string, port: number, expected: string): Promise<bigint> {
    const id = `${this.#asked++}`
    this.#program.write(`${id} ${address} ${port} ${expected}\n`)
    const limit = new AbortController()
    try {
      const line = await Promise.race([
        this.#program.line((answer) => answer.startsWith(`${id} `)),
        sleep(answerLimitMs, undefined, { signal: limit.signal }),
      ])
      if (line === undefined) throw new Error(`${address}:${port} was not answered by ${expected}`)
      return BigInt(line.slice(id.length + 1))
    } finally {
      limit.abort()
    }
  }
}
