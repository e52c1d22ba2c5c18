// The changes of the ruleset as another program sees them.
import type { Namespace } from './namespaces.js'
import type { Program } from './processes.js'
import { eventually } from './traffic.js'

const limitMs = 10_000

/** A program that prints the transactions of others: `nft monitor`. */
export class NftMonitor {
  readonly #program: Program
  readonly #node: Namespace
  readonly #nft: readonly string[]
  #from = 0

  private constructor(node: Namespace, nft: readonly string[]) {
    this.#node = node
    this.#nft = nft
    this.#program = node.start('stdbuf', '-oL', ...nft, 'monitor')
  }

  /** `nft`: the command, by default this machine's. */
  static async open(node: Namespace, nft: readonly string[] = ['nft']): Promise<NftMonitor> {
    const monitor = new NftMonitor(node, nft)
    // It sees transactions only once it listens, which it does not say.
    const isListening = async (): Promise<boolean> => {
      await node.must(...nft, 'add', 'table', 'ip', 'marker')
      await node.must(...nft, 'delete', 'table', 'ip', 'marker')
      return monitor.#program.lines.some((line) => line === 'delete table ip marker')
    }
    await eventually(isListening, (answer) => answer, limitMs)
    await monitor.take()
    return monitor
  }

  /** The lines before now, since the last call. */
  async take(): Promise<readonly string[]> {
    const from = this.#from
    await this.#node.must(...this.#nft, 'add', 'table', 'ip', 'until-now')
    await this.#node.must(...this.#nft, 'delete', 'table', 'ip', 'until-now')
    await this.#program.line((line) => line === 'delete table ip until-now', from)
    this.#from = this.#program.lines.length
    const lines = this.#program.lines.slice(from).map((line) => line.replace(/\s+/gu, ' ').trim())
    return lines.filter((line) => line !== '' && !/^# new generation|table ip (until-now|marker)/u.test(line))
  }

  async close(): Promise<void> {
    await this.#program.kill()
  }
}
