// The API server of the benchmark and those who follow it, as processes.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Type, type Static } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import type { Namespace } from '../../test/support/namespaces.js'
import { Program } from '../../test/support/processes.js'
import type { Size } from '../stage/manifests.js'

const serverProgram = fileURLToPath(new URL('server.js', import.meta.url))
const bareProgram = fileURLToPath(new URL('bare.js', import.meta.url))

/** A change that the API server has sent. */
export interface SentChange {
  readonly vip: string
  /** The endpoint that is new, or has gone with its Service. */
  readonly endpoint: string
  /** Just before it was sent: nanoseconds as process.hrtime.bigint(). */
  readonly sentNs: bigint
}

/** The API server, alone in its process. */
export class ApiProcess {
  readonly #program: Program
  readonly #folder: string
  readonly url: string

  private constructor(program: Program, folder: string, port: string) {
    this.#program = program
    this.#folder = folder
    this.url = `https://127.0.0.1:${port}`
  }

  /** `place`: its network namespace; undefined: the loopback of this one. */
  static async start({ services, reals }: Size, place?: Namespace): Promise<ApiProcess> {
    const folder = mkdtempSync(join(tmpdir(), 'viaduct-api-'))
    const command = [process.execPath, serverProgram, String(services), String(reals), folder]
    const program = place === undefined ? new Program(command) : place.start(...command)
    const line = await program.line((text) => text.startsWith('port '))
    return new ApiProcess(program, folder, line.slice('port '.length))
  }

  get certificate(): string {
    return join(this.#folder, 'cert.pem')
  }

  /** Resolves when all of them were sent. */
  async churn(count: number, perSecond: number): Promise<void> {
    await this.#ask(`churn ${count} ${perSecond}`)
  }

  /** change: one slice gets another first endpoint. add: one more Service and its slice. remove: the last one that was added. */
  async send(what: 'change' | 'add' | 'remove'): Promise<SentChange> {
    const [vip = '', endpoint = '', sentNs = '0'] = (await this.#ask(what)).split(' ')
    return { vip, endpoint, sentNs: BigInt(sentNs) }
  }

  async stop(): Promise<void> {
    await this.#program.kill()
    rmSync(this.#folder, { recursive: true })
  }

  async #ask(line: string): Promise<string> {
    const from = this.#program.lines.length
    this.#program.write(`${line}\n`)
    return await this.#program.line(() => true, from)
  }
}

const Figures = Type.Object({
  atNs: Type.Optional(Type.String()),
  cpuMs: Type.Number(),
  events: Type.Number(),
  rssMiB: Type.Optional(Type.Number()),
  gapMs: Type.Optional(Type.Number()),
  gapWallMs: Type.Optional(Type.Number()),
})
/** The lines that a follower writes; the bare client writes fewer. */
export type Figures = Static<typeof Figures>

/** A program that follows the API server. */
export class Follower {
  readonly startNs = process.hrtime.bigint()
  readonly #program: Program

  /** `program`: the bundled agent up to its model, or `bare`. */
  constructor(api: ApiProcess, program: string, ...flags: readonly string[]) {
    const file = program === 'bare' ? bareProgram : program
    this.#program = new Program([process.execPath, file, api.url, api.certificate, ...flags])
  }

  /** The figures that it wrote at `mark`: `listed`, or `rested`, a little later. */
  async at(mark: 'listed' | 'rested'): Promise<Figures> {
    return parse(await this.#program.line((line) => line.startsWith(`${mark} `)))
  }

  async now(): Promise<Figures> {
    const from = this.#program.lines.length
    this.#program.write('now\n')
    return parse(await this.#program.line((line) => line.startsWith('now '), from))
  }

  async stop(): Promise<void> {
    await this.#program.kill()
  }
}

function parse(line: string): Figures {
  return Value.Parse(Figures, JSON.parse(line.slice(line.indexOf(' ') + 1)))
}
