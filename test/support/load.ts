// Load from one network namespace. Counts all attempts and names the failed ones.
import { join } from 'node:path'
import type { Namespace } from './namespaces.js'
import type { Program } from './processes.js'
import { treeRoot } from './tree.js'

/** One kind of traffic, repeated at intervals, to servers of probes.py. All paths run at the same time. */
export interface LoadPath {
  readonly name: string
  /** `connection`: a new TCP connection each time. `exchange`: requests over one connection. `query`: a datagram from a new socket. */
  readonly kind: 'connection' | 'exchange' | 'query'
  readonly address: string
  readonly port: number
  /** Addresses of the servers that may answer. */
  readonly by: readonly string[]
  /** The client that the server must see; null: any client. */
  readonly sees: string | null
}

export interface LoadCount {
  readonly tried: number
  readonly failed: number
  /** Connections with a retransmitted segment: a packet was lost. */
  readonly retransmitted: number
  readonly slowestMs: number
  /** Addresses of the servers that answered. */
  readonly by: readonly string[]
  /** The reason of each failure. */
  readonly failures: readonly string[]
}

/** Counts by name of the path. */
export type LoadCounts = Readonly<Record<string, LoadCount>>

/** Runs test/support/load.py in a namespace. It ends with the namespace. */
export class Load {
  readonly #program: Program
  #taken = 0

  /** Starts the program at once. */
  constructor(namespace: Namespace) {
    this.#program = namespace.start('python3', join(treeRoot, 'test/support/load.py'))
  }

  /** Starts these paths too. */
  add(paths: readonly LoadPath[]): void {
    this.#program.write(`${JSON.stringify(paths)}\n`)
  }

  /** Counts of the attempts that ended since the last call. Waits until each path has `atLeast` of them. */
  async take(atLeast = 0): Promise<LoadCounts> {
    return await this.#ask(`take ${atLeast}`)
  }

  /** Resets the connection of an `exchange`. Returns the result of `take`. */
  async close(name: string): Promise<LoadCounts> {
    return await this.#ask(`close ${name}`)
  }

  async #ask(request: string): Promise<LoadCounts> {
    this.#program.write(`${request}\n`)
    const counts: LoadCounts = JSON.parse(await this.#program.line(() => true, this.#taken++))
    return counts
  }
}

/** Joins the results of two calls of `take`. */
export function sumOf(a: LoadCounts, b: LoadCounts): LoadCounts {
  const names = [...new Set([...Object.keys(a), ...Object.keys(b)])]
  return Object.fromEntries(names.map((name) => [name, sum(a[name] ?? nothing, b[name] ?? nothing)]))
}

const nothing: LoadCount = { tried: 0, failed: 0, retransmitted: 0, slowestMs: 0, by: [], failures: [] }

function sum(a: LoadCount, b: LoadCount): LoadCount {
  return {
    tried: a.tried + b.tried,
    failed: a.failed + b.failed,
    retransmitted: a.retransmitted + b.retransmitted,
    slowestMs: Math.max(a.slowestMs, b.slowestMs),
    by: [...new Set([...a.by, ...b.by])],
    failures: [...a.failures, ...b.failures],
  }
}
