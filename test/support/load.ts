// Load from one network namespace: everything is counted, and what fails is named.
import { join } from 'node:path'
import type { Namespace } from './namespaces.js'
import type { Program } from './processes.js'
import { treeRoot } from './tree.js'

/** Something that is done again and again, beside the others, against servers of probes.py. */
export interface LoadPath {
  readonly name: string
  /** A new TCP connection each time; requests over one that stays; one datagram of a new socket. */
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
  /** Connections that took a segment sent again: something on their way was lost. */
  readonly retransmitted: number
  readonly slowestMs: number
  /** Addresses of those who answered. */
  readonly by: readonly string[]
  /** Why, one for each that failed. */
  readonly failures: readonly string[]
}

/** By the names of the paths. */
export type LoadCounts = Readonly<Record<string, LoadCount>>

/** Runs test/support/load.py in a namespace, and ends with it. */
export class Load {
  readonly #program: Program
  #taken = 0

  /** Begins at once. */
  constructor(namespace: Namespace) {
    this.#program = namespace.start('python3', join(treeRoot, 'test/support/load.py'))
  }

  /** Begins with these, beside what is under way. */
  add(paths: readonly LoadPath[]): void {
    this.#program.write(`${JSON.stringify(paths)}\n`)
  }

  /** The requests that ended since the last call. */
  async take(): Promise<LoadCounts> {
    return await this.#ask('take')
  }

  /** Ends an `exchange` by a reset; returns what `take` does. */
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
