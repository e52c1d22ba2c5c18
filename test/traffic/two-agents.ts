// Two agents of this build beside each other on one node, as during an upgrade without a change of the rules.
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ProxyMode } from '../../src/config/index.js'
import { treeRoot } from '../support/tree.js'
import type { AgentProcess } from './agent-process.js'
import { assertServed, endpointCount, SwitchLab } from './switch-lab.js'

const agentFile = join(treeRoot, 'dist/agent.js')
/** The agents share no port. */
const servers = ['--healthz-bind-address=127.0.0.1:10266', '--metrics-bind-address=127.0.0.1:10267']

export class TwoAgents {
  readonly lab: SwitchLab
  readonly #folder: string
  /** In the order of their starts. */
  readonly #agents: { readonly agent: AgentProcess; readonly socket: string }[] = []

  private constructor(lab: SwitchLab, folder: string) {
    this.lab = lab
    this.#folder = folder
  }

  static async create(): Promise<TwoAgents> {
    return new TwoAgents(await SwitchLab.create(), await mkdtemp(join(tmpdir(), 'viaduct-two-')))
  }

  /** Starts the next agent. Resolves when both families have had their first sync. */
  async start(mode: ProxyMode, ...flags: readonly string[]): Promise<void> {
    const index = this.#agents.length
    const socket = join(this.#folder, `${index}.sock`)
    const own = index === 0 ? [] : servers
    const agent = this.lab.startAgent(mode, ...flags, ...own, `--control-socket=${socket}`)
    this.#agents.push({ agent, socket })
    await agent.synced()
  }

  /** Throws if an agent would change the kernel now. */
  async assertBothRest(): Promise<void> {
    for (const { socket } of this.#agents) {
      const command = [agentFile, 'diff', `--socket=${socket}`]
      const { code, stdout, stderr } = await this.lab.node.run(process.execPath, ...command)
      assert.equal(code, 0, `${stdout}${stderr}`)
    }
  }

  /** Endpoints go and come back under load, and both agents write the changes. Throws if a connection fails. */
  async assertBothServe(): Promise<void> {
    await this.lab.startLoad()
    for (const endpoints of [endpointCount - 1, endpointCount])
      assertServed(await this.lab.during(async () => await this.#publish(endpoints)))
  }

  /** Ends the first agent. Throws if a connection fails. */
  async assertHandedOver(): Promise<void> {
    assertServed(
      await this.lab.during(async () => {
        assert.equal((await this.#agents.shift()?.agent.terminate())?.code, 0)
      }),
    )
  }

  async close(): Promise<void> {
    await this.lab.close()
    await rm(this.#folder, { recursive: true })
  }

  async #publish(endpoints: number): Promise<void> {
    const running = this.#agents.map(({ agent }) => ({ agent, from: agent.lineCount }))
    await this.lab.publish(endpoints)
    for (const { agent, from } of running)
      for (const family of ['IPv4', 'IPv6'])
        await agent.line(new RegExp(`"ipFamily":"${family}".*"Sync done"`, 'u'), from)
  }
}
