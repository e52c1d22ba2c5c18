// Runs the traffic table: one start of the subject for each group, cases of a group side by side.
import assert from 'node:assert/strict'
import { mkdtemp, mkdir, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { formatEndpoint } from '../../src/address.js'
import { askingAt } from '../../src/commands/client.js'
import type { ProxyMode } from '../../src/config/index.js'
import type { Packet } from '../../src/inspect/testing.js'
import type { XtFlavour } from '../../src/kernel/index.js'
import type { KubernetesObject } from '../../src/source/index.js'
import { setSysctls } from '../support/namespaces.js'
import { Topology } from '../support/topology.js'
import { AgentProcess } from './agent-process.js'
import { type Answer, explainProblem, isExplained } from './explain-checks.js'
import { KubeProxyRules } from './reference/subject.js'
import type { Subject } from './subject.js'
import { failureOf, type Patience } from './table-checks.js'
import {
  type Check,
  flagsOf,
  nftablesConfiguration,
  type Step,
  type TrafficCase,
  type TrafficGroup,
} from './table/case.js'
import { manifestText } from './table/manifest.js'
import { nodeObject } from './table/slot.js'
import type { Protocol } from './table/world.js'

/** The control socket has 16 connections. */
const questionsAtOnce = 4

/** The shipped agent. */
export class AgentSubject implements Subject {
  readonly #mode: ProxyMode
  readonly #flags: readonly string[]
  #agent: AgentProcess | undefined
  #socket = ''
  readonly #lastAnswers = new Map<number, Promise<unknown>>()
  #asked = 0

  /** `flags`: in addition to those of the settings. */
  constructor(mode: ProxyMode, flags: readonly string[] = []) {
    this.#mode = mode
    this.#flags = flags
  }

  async start(topology: Topology, group: TrafficGroup, folder: string): Promise<void> {
    this.#socket = `${folder}.sock`
    const flags = [
      ...(await this.#settingFlags(group, folder)),
      ...this.#flags,
      '--control-socket',
      this.#socket,
    ]
    this.#agent = AgentProcess.start({ node: topology.node, manifests: folder, mode: this.#mode, flags })
    await this.#agent.line(/"Control socket listens"/u, 0)
    await this.#agent.synced()
  }

  /** Throws if the kernel does not agree. */
  async explain(packet: Packet): Promise<Answer> {
    const line = this.#asked++ % questionsAtOnce
    const last = this.#lastAnswers.get(line) ?? Promise.resolve()
    const answer = last.then(() => this.#ask(packet))
    this.#lastAnswers.set(
      line,
      answer.catch(() => undefined),
    )
    return await answer
  }

  async #ask({ client, inInterface, destination, port, protocol }: Packet): Promise<Answer> {
    const answer = await askingAt(this.#socket)('explain', {
      client,
      destination: `${formatEndpoint(destination, port)}/${protocol}`,
      ...(inInterface === undefined ? {} : { interface: inInterface }),
    })
    // Every rule of the table's firewalls can be evaluated.
    const { firewall, route } = answer
    assert.match(firewall.state, /^(?:passes|drops|not-asked)$/u, firewall.rules.join('; '))
    assert.match(route.state, /^(?:routed|not-asked)$/u, route.reasons.join('; '))
    const { state, differences } = answer.kernel
    const isAsked = answer.service !== undefined
    assert.equal(state, isAsked ? 'agrees' : 'not-asked', `${answer.destination}: ${differences.join('; ')}`)
    return answer
  }

  async #settingFlags({ settings }: TrafficGroup, folder: string): Promise<readonly string[]> {
    if (this.#mode !== 'nftables') return flagsOf(settings)
    const file = `${folder}.configuration`
    await writeFile(file, JSON.stringify(nftablesConfiguration(settings)))
    return ['--config', file]
  }

  async stop(): Promise<void> {
    const agent = this.#agent
    this.#agent = undefined
    if (agent === undefined) return
    const { code, stderr } = await agent.terminate()
    assert.equal(code, 0, `the agent ended with ${code ?? 'a signal'}: ${stderr}`)
  }
}

export interface TableOptions {
  readonly subject: Subject
  readonly protocols: readonly Protocol[]
  readonly patience?: TablePatience
  /** The flavour of the node's own firewall, and of a predecessor's rules; legacy by default. */
  readonly nodeFlavour?: XtFlavour
  /** Another program has rules in table nat of this flavour too. */
  readonly otherNat?: XtFlavour
  /** Whether the subject is also asked to explain what the packets did. */
  readonly explains?: boolean
  /** Whether the subject follows changes: without it a case ends with its first checks, and has no predecessor. */
  readonly followsChanges?: boolean
}

/** The settings of `Patience`, and the further settings of a run of the table. */
export interface TablePatience extends Patience {
  /**
   * A check that is repeated until it holds waits no longer than this for one answer. A refusal that meets the socket still
   * busy with its SYN counts only when the next SYN, a second later, is refused as well.
   */
  readonly retryMs: number
  /** For changes to take effect; met by broken runs only. */
  readonly changeMs: number
}

const defaultPatience: TablePatience = { silenceMs: 500, answerMs: 5000, retryMs: 1500, changeMs: 20_000 }
/** The guest is about ten times slower. The time that counts as silence is longer too. */
export const guestPatience: TablePatience = {
  silenceMs: 3000,
  answerMs: 60_000,
  retryMs: 10_000,
  changeMs: 60_000,
}
/** Bounds what is in flight at one moment: a row meets rules, not full queues. */
const casesAtOnce = 6

/** Registers a suite for each group, on one topology. */
export function runTable(title: string, groups: readonly TrafficGroup[], options: TableOptions): void {
  describe(title, { timeout: 1_200_000 }, () => {
    let topology: Topology
    let folder: string
    const explained = options.explains === true ? new ExplainedRows() : undefined
    before(async () => {
      folder = await mkdtemp(join(tmpdir(), 'viaduct-table-'))
      topology = await Topology.build(options.protocols)
    })
    after(async () => {
      await topology.close()
      await rm(folder, { recursive: true })
    })
    for (const [index, group] of groups.entries()) {
      const concurrency = group.isSequential === true ? 1 : casesAtOnce
      describe(group.name, { concurrency }, () => {
        let run: GroupRun
        before(async () => {
          run = new GroupRun(topology, group, join(folder, `group-${index}`), { ...options, explained })
          await run.start()
        })
        after(() => run.stop())
        for (const [position, row] of group.cases.entries()) it(row.name, () => run.case(position, row))
      })
    }
    if (explained === undefined) return
    it('explain answers as the packets do', (context) => context.diagnostic(explained.summary()))
  })
}

/** The rows whose packets were compared with the answers of explain. */
class ExplainedRows {
  readonly #rows = new Set<string>()
  readonly #unlike = new Set<string>()
  #count = 0

  /** The checks that explain answers otherwise, a line each. Their packets have shown what the checks expect. */
  async problems(
    { group, row }: { readonly group: TrafficGroup; readonly row: TrafficCase },
    checks: readonly Check[],
    subject: Subject,
  ): Promise<readonly string[]> {
    const { explain } = subject
    const explained = checks.filter(isExplained)
    if (explain === undefined || explained.length === 0) return []
    const key = `${group.name}: ${row.name}`
    this.#rows.add(key)
    this.#count += explained.length
    const answers = await Promise.all(
      explained.map((check) => explainProblem(check, (packet) => explain.call(subject, packet))),
    )
    const problems = answers.filter((problem) => problem !== undefined)
    if (problems.length > 0) this.#unlike.add(key)
    return problems.map((problem) => `explain, ${problem}`)
  }

  /** Throws if a row differs, or none was compared. */
  summary(): string {
    const compared = this.#rows.size
    const agreed = compared - this.#unlike.size
    const text = `explain: ${agreed} of ${compared} rows, ${this.#count} checks`
    assert.ok(agreed === compared && compared > 0, text)
    return text
  }
}

interface GroupOptions extends TableOptions {
  readonly explained: ExplainedRows | undefined
}

/** One group on the topology, between the start and the stop of the subject. */
class GroupRun {
  readonly #topology: Topology
  readonly #group: TrafficGroup
  readonly #folder: string
  readonly #options: GroupOptions
  readonly #patience: TablePatience
  /** The subject that programmed node-a last. */
  #subject: Subject

  constructor(topology: Topology, group: TrafficGroup, folder: string, options: GroupOptions) {
    this.#topology = topology
    this.#group = group
    this.#folder = folder
    this.#options = options
    this.#patience = options.patience ?? defaultPatience
    const hasPredecessor = group.predecessor !== undefined && options.followsChanges !== false
    this.#subject = hasPredecessor ? new KubeProxyRules(options.nodeFlavour) : options.subject
  }

  async start(): Promise<void> {
    const { node, cases } = this.#group
    await mkdir(this.#folder)
    await this.#write('node', [nodeObject])
    for (const [position, row] of cases.entries()) await this.#writeCase(position, row.objects)
    const { nodeFlavour = 'legacy', otherNat } = this.#options
    if (otherNat !== undefined)
      await this.#firewall(
        ['PREROUTING', 'OUTPUT'].map((chain) => `-t nat -I ${chain} -j RETURN`),
        otherNat,
      )
    await this.#firewall(node?.firewall ?? [], nodeFlavour)
    // A setting that another group's agent switched on does not belong to this group.
    await setSysctls(this.#topology.node, 'net.ipv4.conf.all.route_localnet=0', ...(node?.sysctls ?? []))
    await this.#nodeAddresses('add')
    await this.#subject.start(this.#topology, this.#group, this.#folder)
  }

  async stop(): Promise<void> {
    await this.#subject.stop()
    await this.#nodeAddresses('del')
    await this.#firewall(this.#group.node?.undo ?? [], this.#options.nodeFlavour ?? 'legacy')
  }

  /** Throws with every check of the case that does not hold. */
  async case(position: number, row: TrafficCase): Promise<void> {
    const rules = `(${row.rules.join(', ')})`
    assert.ok(row.checks.length > 0, `shows nothing with ${this.#options.protocols.join(' and ')} ${rules}`)
    await this.#expect(row.checks, `with its objects ${rules}`)
    await this.#explain(row, row.checks, `with its objects ${rules}`)
    if (this.#options.followsChanges === false) return
    for (const [index, step] of (row.steps ?? []).entries()) {
      const where = `in step ${index + 1} ${rules}`
      await this.#step(position, step, where)
      // A further request of a session is no new connection.
      if ('checks' in step)
        await this.#explain(
          row,
          step.checks.filter(({ kind }) => kind !== 'ask'),
          where,
        )
    }
  }

  async #explain(row: TrafficCase, checks: readonly Check[], where: string): Promise<void> {
    const { explained } = this.#options
    const problems = (await explained?.problems({ group: this.#group, row }, checks, this.#subject)) ?? []
    assert.equal(problems.length, 0, `${where}:\n${problems.join('\n')}`)
  }

  async #step(position: number, step: Step, where: string): Promise<void> {
    switch (step.do) {
      case 'set':
        return this.#writeCase(position, step.objects)
      case 'check':
        return this.#expect(step.checks, where)
      case 'until':
        return this.#expectSoon(step.checks, where)
      case 'restart':
        await this.#subject.stop()
        if (step.objects !== undefined) await this.#writeCase(position, step.objects)
        this.#subject = this.#options.subject
        return this.#subject.start(this.#topology, this.#group, this.#folder)
    }
  }

  async #expect(checks: readonly Check[], where: string): Promise<void> {
    const failures = await this.#failures(checks, this.#patience)
    assert.equal(failures.length, 0, `${where}:\n${failures.join('\n')}`)
  }

  /** Repeats the checks that fail until all of them have held. */
  async #expectSoon(checks: readonly Check[], where: string): Promise<void> {
    const { changeMs } = this.#patience
    const limit = performance.now() + changeMs
    let failing: readonly Check[] = checks
    for (;;) {
      const { left, failures } = await this.#failing(failing)
      if (left.length === 0) return
      assert.ok(
        performance.now() < limit,
        `${where}, ${changeMs} ms after the change:\n${failures.join('\n')}`,
      )
      failing = left
    }
  }

  async #failing(
    checks: readonly Check[],
  ): Promise<{ readonly left: readonly Check[]; readonly failures: readonly string[] }> {
    const { silenceMs, retryMs } = this.#patience
    const results = await Promise.all(
      checks.map(async (check) => ({
        check,
        failure: await failureOf(this.#topology, check, { silenceMs, answerMs: retryMs }),
      })),
    )
    const failed = results.filter(({ failure }) => failure !== undefined)
    return { left: failed.map(({ check }) => check), failures: failed.map(({ failure }) => failure ?? '') }
  }

  async #failures(checks: readonly Check[], patience: Patience): Promise<readonly string[]> {
    const all = await Promise.all(checks.map((check) => failureOf(this.#topology, check, patience)))
    return all.filter((failure) => failure !== undefined)
  }

  /** A case has a file of its own; the Node object has one for all of them. */
  async #writeCase(position: number, objects: readonly KubernetesObject[]): Promise<void> {
    const nodes = objects.filter(({ kind }) => kind === 'Node')
    if (nodes.length > 0) await this.#write('node', nodes)
    await this.#write(
      `case-${position}`,
      objects.filter(({ kind }) => kind !== 'Node'),
    )
  }

  /** As an editor does it: a new file over the old one. */
  async #write(name: string, objects: readonly KubernetesObject[]): Promise<void> {
    const draft = `${this.#folder}.${name}`
    await writeFile(draft, manifestText(objects))
    await rename(draft, join(this.#folder, `${name}.json`))
  }

  async #nodeAddresses(verb: 'add' | 'del'): Promise<void> {
    const addresses = this.#group.cases.flatMap((row) => row.nodeAddresses ?? [])
    const lines = addresses.map((address) => {
      const isIpv6 = address.includes(':')
      const options = isIpv6 && verb === 'add' ? ' nodad' : ''
      return `address ${verb} ${address}/${isIpv6 ? 128 : 32} dev lo${options}`
    })
    if (lines.length > 0) await this.#topology.node.ip(...lines)
  }

  async #firewall(lines: readonly string[], flavour: XtFlavour): Promise<void> {
    for (const line of lines) {
      for (const program of ['iptables', 'ip6tables'])
        await this.#topology.node.must(`${program}-${flavour}`, '-w', ...line.split(' '))
    }
  }
}
