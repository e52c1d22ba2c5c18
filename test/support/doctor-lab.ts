// The node of the doctor's tests: this network namespace, with a fake API server.
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readlinkSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, it } from 'node:test'
import { type Static, Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { printFindings } from '../../src/doctor/index.js'
import { apiNode } from './api-documents.js'
import { FakeApiServer, type FakeApiOptions } from './fake-api-server.js'
import { mustRun, Program, runToEnd, type Finished } from './processes.js'
import { treeRoot } from './tree.js'

/** Connection tracking stays as it is: its limits belong to the initial namespace. */
const conntrackOff = [
  '--conntrack-max-per-core=0',
  '--conntrack-tcp-timeout-established=0s',
  '--conntrack-tcp-timeout-close-wait=0s',
]

/** PROC_PID_INIT_INO of linux/proc_ns.h. */
const seesAllProcesses = readlinkSync('/proc/self/ns/pid') === 'pid:[4026531836]'
/** Checks that cannot be made in a container without the processes of its host, if these tests run there. */
export const hiddenChecks: ReadonlySet<string> = new Set(seesAllProcesses ? [] : ['kube-proxy-process'])

const Found = Type.Object({
  check: Type.String(),
  status: Type.String(),
  seen: Type.String(),
  cause: Type.Optional(Type.String()),
  remedy: Type.Optional(Type.String()),
})
type Found = Static<typeof Found>

interface Problems {
  readonly code: number | undefined
  readonly found: readonly Found[]
}

export interface DoctorOptions {
  readonly flags?: readonly string[]
  /** Words before the command. */
  readonly wrapper?: readonly string[]
  readonly master?: string
}

/** A breakage of the node, and the finding that names it. */
export interface Breakage {
  readonly what: string
  readonly make?: () => Promise<unknown>
  readonly undo?: () => Promise<unknown>
  readonly options?: DoctorOptions
  readonly server?: FakeApiOptions
  readonly check: string
  readonly status: 'broken' | 'warning' | 'unknown'
  readonly seen: RegExp
  readonly remedy?: RegExp
}

/** Runs a script in the namespace. Throws if one of its lines fails. */
export async function sh(script: string): Promise<unknown> {
  return await mustRun(['sh', '-ec', script])
}

/** Runs the doctor on a healthy node, whose parts the tests break. Its tests share one server. */
export class DoctorLab {
  readonly folder = mkdtempSync(join(tmpdir(), 'viaduct-doctor-'))
  readonly #server = new FakeApiServer()
  readonly #transcript: string[] = []

  /** Registers start and end. `transcript`: the file below out/transcripts that gets the findings as the command prints them. */
  constructor(transcript?: string) {
    before(async () => {
      await this.#server.listen()
      this.#server.store.put('Node', apiNode('node-a'))
      // It is off in a new namespace.
      await sh('echo 1 > /proc/sys/net/ipv4/ip_forward')
    })
    after(async () => {
      await this.#server.close()
      if (transcript !== undefined) {
        mkdirSync(join(treeRoot, 'out/transcripts'), { recursive: true })
        writeFileSync(join(treeRoot, 'out/transcripts', transcript), this.#transcript.join('\n'))
      }
      rmSync(this.folder, { recursive: true })
    })
  }

  /** The command with usual flags and these. */
  command({ flags = [], master = this.#server.url.href }: DoctorOptions = {}): readonly string[] {
    const program = [process.execPath, join(treeRoot, 'dist/agent.js'), 'doctor']
    const node = ['--master', master, '--hostname-override=node-a', '--proxy-mode=nftables']
    return [...program, '--socket', join(this.folder, 'none'), ...node, ...conntrackOff, ...flags]
  }

  async run({ wrapper = [], ...options }: DoctorOptions = {}): Promise<Finished> {
    return await runToEnd([...wrapper, ...this.command(options)])
  }

  /** `viaduct doctor --watch`. */
  watch(options: DoctorOptions = {}): Program {
    return new Program([...this.command(options), '--watch'])
  }

  /** The problems of the node, and the exit code. The clock and hidden processes belong to the machine of the tests, and are left out. */
  async problems(options: DoctorOptions = {}): Promise<Problems> {
    const { code, found } = await this.#allProblems(options)
    return { code, found: found.filter(({ check }) => check !== 'clock-sync' && !hiddenChecks.has(check)) }
  }

  async #allProblems(options: DoctorOptions = {}): Promise<Problems> {
    const { code, stdout, stderr } = await this.run({
      ...options,
      flags: ['-o', 'json', ...(options.flags ?? [])],
    })
    assert.equal(stderr, '')
    const findings = Value.Parse(Type.Array(Found), JSON.parse(stdout))
    return { code, found: findings.filter(({ status }) => status !== 'ok') }
  }

  /** A test for each breakage: the doctor names it, with its cause and its remedy. */
  names(breakages: readonly Breakage[]): void {
    for (const breakage of breakages) it(`names ${breakage.what}`, async () => await this.#expect(breakage))
  }

  async #expect(breakage: Breakage): Promise<void> {
    const { what, make, undo, options, server = {}, check, status, seen } = breakage
    try {
      await make?.()
      this.#server.options = server
      const { code, found } = await this.#allProblems(options)
      const finding = found.find((each) => each.check === check && seen.test(each.seen))
      assert.ok(finding !== undefined, JSON.stringify(found, undefined, 2))
      assert.equal(finding.status, status)
      const { cause = '', remedy = '' } = finding
      assert.match(cause, /\.$/)
      assert.match(remedy, breakage.remedy ?? /\.$/)
      const shown = { check, status, seen: finding.seen, cause, remedy }
      this.#transcript.push(`== ${what} (exit code ${code})\n${printFindings([shown], true)}`)
      if (status === 'broken') assert.equal(code, 1)
    } finally {
      this.#server.options = {}
      await undo?.()
    }
  }
}
