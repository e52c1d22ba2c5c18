// Probes and servers of one network namespace. One long-lived process runs many of them at the same time.
import { join } from 'node:path'
import type { Namespace } from './namespaces.js'
import type { Program } from './processes.js'
import { treeRoot } from './tree.js'

export interface ProbeTarget {
  readonly protocol: 'TCP' | 'UDP' | 'SCTP'
  readonly address: string
  readonly port: number
}

/** The address to which the client's socket is bound. Absent: the kernel chooses. */
export interface ProbeSource {
  readonly sourceAddress?: string
  readonly sourcePort?: number
}

/**
 * `answer`: the server (its own `ADDRESS PORT`) and the client address that it saw. `dropped`: no answer within the limit, or the
 * packet could not leave. `error`: any other result, such as a missing route.
 */
export type ProbeOutcome =
  | { readonly kind: 'answer'; readonly by: string; readonly sees: string; readonly seesPort: number }
  | { readonly kind: 'refused' | 'dropped' }
  | { readonly kind: 'error'; readonly code: string }

type Reply = Readonly<Record<string, unknown>>

/** Runs test/support/probes.py in a namespace. It ends with the namespace. */
export class Prober {
  readonly #program: Program
  readonly #waiting = new Map<
    number,
    { readonly resolve: (reply: Reply) => void; readonly reject: (reason: unknown) => void }
  >()
  #requests = 0
  /** The reason why the program ended; undefined: it runs. */
  #end: Error | undefined

  constructor(namespace: Namespace) {
    // -S: without packages of the machine, which take a fifth of the start.
    this.#program = namespace.start('python3', '-S', join(treeRoot, 'test/support/probes.py'))
    this.#dispatch().catch((error: unknown) => {
      this.#end = new Error(`the probes in ${namespace.name} have ended`, { cause: error })
      for (const { reject } of this.#waiting.values()) reject(this.#end)
    })
  }

  /** Listens on every target. Resolves when all listen. */
  async serve(targets: readonly ProbeTarget[]): Promise<void> {
    const list = targets.map(({ protocol, address, port }) => [protocol, address, port])
    await this.#send({ op: 'serve', targets: list }, 10_000)
  }

  /** One request over a new connection, or one datagram from a new socket. `limitMs`: longest wait for an answer. */
  async probe(target: ProbeTarget & ProbeSource, limitMs: number): Promise<ProbeOutcome> {
    return outcomeOf(await this.#send({ op: 'probe', ...target }, limitMs))
  }

  /** One request over the socket with this name. The first request opens it. */
  async ask(session: string, target: ProbeTarget & ProbeSource, limitMs: number): Promise<ProbeOutcome> {
    return outcomeOf(await this.#send({ op: 'ask', session, ...target }, limitMs))
  }

  /** Closes the socket with this name. */
  async close(session: string): Promise<void> {
    await this.#send({ op: 'close', session }, 10_000)
  }

  /** Sends a text over a new TCP connection. Returns all data until the server closes it. Throws without an answer. */
  async exchange(address: string, port: number, text: string): Promise<string> {
    const reply = await this.#send({ op: 'exchange', protocol: 'TCP', address, port, text }, 5000)
    const answer = reply['text']
    if (typeof answer === 'string') return answer
    throw new Error(`no answer from ${address} port ${port}: ${JSON.stringify(reply)}`)
  }

  /** Sends a TCP segment that belongs to no connection. `refused`: it arrived. `dropped`: it did not. */
  async stray(address: string, port: number, limitMs: number): Promise<ProbeOutcome> {
    return outcomeOf(await this.#send({ op: 'stray', address, port }, limitMs))
  }

  #send(request: object, limitMs: number): Promise<Reply> {
    if (this.#end !== undefined) return Promise.reject(this.#end)
    const id = this.#requests++
    const reply = new Promise<Reply>((resolve, reject) => this.#waiting.set(id, { resolve, reject }))
    this.#program.write(`${JSON.stringify({ id, limitMs, ...request })}\n`)
    return reply
  }

  /** Passes answers to their callers. Rejects when the program ends. */
  async #dispatch(): Promise<never> {
    for (let index = 0; ; index++) {
      const reply: Reply = JSON.parse(await this.#program.line(() => true, index))
      const id = Number(reply['id'])
      this.#waiting.get(id)?.resolve(reply)
      this.#waiting.delete(id)
    }
  }
}

function outcomeOf(reply: Reply): ProbeOutcome {
  const { kind, by, sees, seesPort, code } = reply
  if (kind === 'answer') return { kind, by: String(by), sees: String(sees), seesPort: Number(seesPort) }
  if (kind === 'refused' || kind === 'dropped') return { kind }
  return { kind: 'error', code: String(code) }
}
