import type { ModeWatch } from '../../engine/index.js'
import type { Relay } from '../../kernel/index.js'
import { type Log, StateReporter } from '../../log.js'

/** Reports that the relay is short of file descriptors, and asks for a run when it no longer is: listeners that failed may open then. */
export class StrainWatch implements ModeWatch {
  readonly #relay: Pick<Relay, 'nextStrain'>
  readonly #reporter: StateReporter
  readonly #closed: Promise<undefined>
  #close = (): void => {}

  constructor(relay: Pick<Relay, 'nextStrain'>, log: Log) {
    this.#relay = relay
    this.#reporter = new StateReporter({
      log,
      level: 'error',
      problemLine: 'File descriptors are short',
      recovery: 'File descriptors are no longer short',
    })
    this.#closed = new Promise((resolve) => {
      this.#close = () => resolve(undefined)
    })
  }

  async next(): Promise<boolean> {
    for (;;) {
      const strain = await Promise.race([this.#relay.nextStrain(), this.#closed])
      if (strain === undefined) return false
      const { isShort, descriptorLimit } = strain
      const text = `the limit is ${descriptorLimit}; the relay refuses new connections of the busiest listeners`
      this.#reporter.report('descriptors', isShort ? { text } : undefined)
      if (!isShort) return true
    }
  }

  async close(): Promise<void> {
    this.#close()
  }
}
