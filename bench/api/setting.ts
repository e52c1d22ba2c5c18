// The processes of the API benchmark: the API server and its followers.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Type, type Static } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import type { Namespace } from '../../test/support/namespaces.js'
import { Program } from '../../test/support/processes.js'
import type { Size } from '../stage/manifests.js'
import type { TenantText } from './tenants.js'

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

/** The API server process. */
export class ApiProcess {
  readonly #program: Program
  readonly #folder: string
  readonly url: string

  private constructor(program: Program, folder: string, port: string) {
    this.#program = program
    this.#folder = folder
    this.url = `https://127.0.0.1:${port}`
  }

  /** `place`: its network namespace. undefined: that of this process. */
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

  /** Sends changes. Resolves after the last one. */
  async churn(count: number, perSecond: number): Promise<void> {
    await this.#ask(`churn ${count} ${perSecond}`)
  }

  /** Adds the tenant's objects. */
  async addTenant(tenant: TenantText): Promise<void> {
    await this.#ask(`tenant ${tenant}`)
  }

  /** Begins to send the tenant's changes. Resolves before the first one. */
  async storm(
    tenant: TenantText,
    { count, perSecond }: { readonly count: number; readonly perSecond: number },
  ): Promise<void> {
    await this.#ask(`storm ${count} ${perSecond} ${tenant}`)
  }

  /** Sends change number `change` of the tenant, from 1 on. Returns the moment just before, as process.hrtime.bigint(). */
  async alter(tenant: TenantText, change: number): Promise<bigint> {
    return BigInt(await this.#ask(`alter ${change} ${tenant}`))
  }

  /** `change` replaces the first endpoint of one slice. `add` adds a Service with its slice. `remove` removes the Service that was added last. */
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
/** The figures that a follower prints. The bare client prints fewer. */
export type Figures = Static<typeof Figures>

/** A program that follows the API server. */
export class Follower {
  readonly startNs = process.hrtime.bigint()
  readonly #program: Program

  /** `program`: the bundle of follow.ts, or `bare`. */
  constructor(api: ApiProcess, program: string, ...flags: readonly string[]) {
    const file = program === 'bare' ? bareProgram : program
    this.#program = new Program([process.execPath, file, '--', api.url, api.certificate, ...flags])
  }

  /** The figures at a mark: `listed`, or `rested` some seconds later. */
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
