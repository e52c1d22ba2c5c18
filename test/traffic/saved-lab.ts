// A node whose ruleset is saved with the nft of a Debian release, and loaded again as at a boot.
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ProxyMode } from '../../src/config/index.js'
import { NftMonitor } from '../support/nft-monitor.js'
import { nftOf, type NftSuite } from '../support/nft-versions.js'
import { runToEnd } from '../support/processes.js'
import type { AgentProcess } from './agent-process.js'
import { assertNoneStale, assertServed, endpointCount, type LabOptions, SwitchLab } from './switch-lab.js'

/** Tables of the host, in nft's text. */
export const hostTables = `table inet host {
  set allowed { type ipv4_addr; flags interval; elements = { 192.0.2.0/24 } }
  chain input { type filter hook input priority 0; policy accept; ip saddr @allowed counter accept; }
}
`

export interface SavedLabOptions extends LabOptions {
  readonly mode: ProxyMode
  /** An agent that names no flags has these. */
  readonly flags: readonly string[]
}

/** One agent after the other, on the node of a SwitchLab. */
export class SavedLab {
  readonly #options: SavedLabOptions
  readonly #folder: string
  readonly lab: SwitchLab
  #agent: AgentProcess | undefined

  private constructor(options: SavedLabOptions, folder: string, lab: SwitchLab) {
    this.#options = options
    this.#folder = folder
    this.lab = lab
  }

  static async create(options: SavedLabOptions): Promise<SavedLab> {
    const folder = await mkdtemp(join(tmpdir(), 'viaduct-saved-'))
    return new SavedLab(options, folder, await SwitchLab.create(options))
  }

  /** Starts an agent, and waits for its first sync. */
  async start(flags: readonly string[] = this.#options.flags): Promise<void> {
    this.#agent = this.lab.startAgent(this.#options.mode, ...flags)
    await this.#agent.synced()
  }

  async stop(): Promise<void> {
    const ended = await this.#agent?.terminate()
    if (ended?.code !== 0) throw new Error(`the agent ended with ${ended?.code}`)
  }

  /** Starts an agent under load, of which nothing may fail. Returns what `nft monitor` of the release printed meanwhile. */
  async startSeen(suite: NftSuite): Promise<readonly string[]> {
    const monitor = await NftMonitor.open(this.lab.node, nftOf(suite))
    assertServed(await this.lab.during(async () => await this.start()))
    const written = await monitor.take()
    await monitor.close()
    return written
  }

  async list(suite: NftSuite, ...options: readonly string[]): Promise<string> {
    return await this.lab.node.must(...nftOf(suite), ...options, 'list', 'ruleset')
  }

  /** Our tables, as `loadElsewhere` lists them. */
  async listOwn(suite: NftSuite): Promise<string> {
    const list = async (family: 'ip' | 'ip6'): Promise<string> =>
      await this.lab.node.must(...nftOf(suite), '-sn', 'list', 'table', family, 'kube-proxy')
    return `${await list('ip')}\n${await list('ip6')}`
  }

  /** Loads the text in a new namespace, and lists our tables there. */
  async loadElsewhere(suite: NftSuite, text: string): ReturnType<typeof runToEnd> {
    const list = '"$@" -sn list table ip kube-proxy && exec "$@" -sn list table ip6 kube-proxy'
    const script = `"$@" -f ${await this.#write(text)} && ${list}`
    return await runToEnd(['unshare', '--net', 'sh', '-c', script, 'sh', ...nftOf(suite)])
  }

  /** Ends the agent, and puts a saved ruleset in place of all rules, behind tables of the host; a JSON text alone. */
  async boot(suite: NftSuite, saved: string): Promise<void> {
    await this.stop()
    const isJson = saved.startsWith('{')
    const text = isJson ? afterFlush(saved) : `flush ruleset\n${hostTables}${saved}`
    await this.lab.node.must(...nftOf(suite), ...(isJson ? ['-j'] : []), '-f', await this.#write(text))
  }

  /** Takes endpoints away before an agent starts, which may fail no connection, and lead none to them. */
  async assertStaleGoes(): Promise<void> {
    const left = endpointCount - 3
    await this.lab.publish(left)
    assertServed(await this.lab.during(async () => await this.start()))
    const later = await this.lab.during(async () => {})
    assertServed(later)
    assertNoneStale(later, left)
  }

  async close(): Promise<void> {
    await this.lab.close()
    await rm(this.#folder, { recursive: true })
  }

  async #write(text: string): Promise<string> {
    const file = join(this.#folder, 'listing')
    await writeFile(file, text)
    return file
  }
}

/** The JSON listing, which begins with an object, with a flush of the ruleset before the others. */
function afterFlush(saved: string): string {
  const { nftables }: { readonly nftables: readonly unknown[] } = JSON.parse(saved)
  return JSON.stringify({ nftables: [nftables[0], { flush: { ruleset: null } }, ...nftables.slice(1)] })
}
