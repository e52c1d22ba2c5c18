// Servers that answer with their own address and port, and a client that reports which server answered.
import { setImmediate as turn } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Namespace } from './namespaces.js'
import type { Program } from './processes.js'

export interface Target {
  readonly protocol: 'tcp' | 'udp'
  readonly address: string
  readonly port: number
}

/** `answer`: `from` names the server (`ADDRESS PORT`). The other kinds have no answer. */
export type ProbeResult =
  | { readonly kind: 'answer'; readonly from: string }
  | { readonly kind: 'refused' | 'timeout' }
  | { readonly kind: 'error'; readonly code: string }

function program(name: string): string {
  return fileURLToPath(new URL(`${name}.js`, import.meta.url))
}

/** Listens on every target. NB: the addresses must exist in the namespace. Resolves when all listen. */
export async function serve(namespace: Namespace, targets: readonly Target[]): Promise<Program> {
  const words = targets.map((target) => `${target.protocol} ${target.address} ${target.port}`)
  const server = namespace.start(process.execPath, program('echo-server'), ...words)
  await server.line((line) => line === 'listening')
  return server
}

/** One process in the client's namespace that makes one connection at a time. */
export class ProbeClient {
  readonly #program: Program
  #asked = 0
  #last: Promise<unknown> = Promise.resolve()

  constructor(namespace: Namespace) {
    this.#program = namespace.start(process.execPath, program('probe-client'))
  }

  /** One new connection, or one datagram from a new port. `limitMs`: longest wait for an answer. */
  probe(target: Target, limitMs = 5000): Promise<ProbeResult> {
    const result = this.#last.then(() => this.#ask(target, limitMs))
    this.#last = result.catch(() => undefined)
    return result
  }

  async #ask(target: Target, limitMs: number): Promise<ProbeResult> {
    this.#program.write(`${target.protocol} ${target.address} ${target.port} ${limitMs}\n`)
    const line = await this.#program.line(() => true, this.#asked++)
    const space = line.indexOf(' ')
    const [kind, rest] = space < 0 ? [line, ''] : [line.slice(0, space), line.slice(space + 1)]
    if (kind === 'answer') return { kind, from: rest }
    if (kind === 'refused' || kind === 'timeout') return { kind }
    return { kind: 'error', code: rest }
  }

  /** The servers that answer in `rounds` connections, sorted. Throws at the first connection without an answer. */
  async backends(target: Target, rounds: number): Promise<readonly string[]> {
    const names = new Set<string>()
    for (let round = 0; round < rounds; round++) {
      const result = await this.probe(target)
      if (result.kind !== 'answer')
        throw new Error(`${target.protocol} ${target.address} ${target.port}: ${result.kind}`)
      names.add(result.from)
    }
    return [...names].toSorted()
  }
}

/**
 * Waits until `read` returns a value that fits. Throws with the last value after the limit, which only broken runs reach.
 */
export async function eventually<T>(
  read: () => Promise<T>,
  fits: (value: T) => boolean,
  limitMs = 60_000,
): Promise<T> {
  const limit = performance.now() + limitMs
  for (;;) {
    const value = await read()
    if (fits(value)) return value
    if (performance.now() > limit) throw new Error(`still ${JSON.stringify(value)} after ${limitMs} ms`)
    await turn()
  }
}
