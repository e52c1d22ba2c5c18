// Profiles of this process, by V8's inspector. The inspector opens no port, and is loaded with the first recording.
import type { Session } from 'node:inspector/promises'
import type { Clock } from '../clock.js'

/** Makes one recording at a time, since two would distort each other. */
export class Profiler {
  readonly #clock: Pick<Clock, 'schedule'>
  #isBusy = false

  constructor(clock: Pick<Clock, 'schedule'>) {
    this.#clock = clock
  }

  /**
   * Records until `durationMs` has passed or `signal` aborts, and resolves with the text of a file for V8's tools. Resolves with undefined
   * while another recording is in progress. Throws if Node was built without the inspector.
   */
  async record(
    kind: 'cpuprofile' | 'heapprofile',
    durationMs: number,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    if (this.#isBusy) return undefined
    this.#isBusy = true
    try {
      const inspector = await import('node:inspector/promises')
      const session = new inspector.Session()
      session.connect()
      try {
        return await recorders[kind](session, async () => await this.#wait(durationMs, signal))
      } finally {
        session.disconnect()
      }
    } finally {
      this.#isBusy = false
    }
  }

  async #wait(durationMs: number, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return
    await new Promise<void>((resolve) => {
      const cancel = this.#clock.schedule(durationMs, resolve)
      const end = (): void => {
        cancel()
        resolve()
      }
      signal.addEventListener('abort', end, { once: true })
    })
  }
}

type Recorder = (session: Session, wait: () => Promise<void>) => Promise<string>

const recorders: Readonly<Record<'cpuprofile' | 'heapprofile', Recorder>> = {
  cpuprofile: async (session, wait) => {
    await session.post('Profiler.enable')
    await session.post('Profiler.start')
    await wait()
    const { profile } = await session.post('Profiler.stop')
    return JSON.stringify(profile)
  },
  heapprofile: async (session, wait) => {
    await session.post('HeapProfiler.enable')
    await session.post('HeapProfiler.startSampling')
    await wait()
    const { profile } = await session.post('HeapProfiler.stopSampling')
    return JSON.stringify(profile)
  },
}
