// The debug pages of the metrics server, with enableProfiling (F-095, F-123): profiles, and the log verbosity.
import type { Session } from 'node:inspector/promises'
import type { AdjustableLog } from '../log.js'
import { text, type Page, type Pages, type PageRequest, type Reply } from './reply.js'
import type { Clock } from '../clock.js'

/** The debug pages. /statusz does not list them, as in kube-proxy. */
export function debugPages(log: AdjustableLog, clock: Pick<Clock, 'schedule'>): Pages {
  const profiler = new Profiler(clock)
  return new Map<string, Page>([
    ['/debug/pprof', () => ({ ...text('', 301), location: '/debug/pprof/' })],
    ['/debug/pprof/', () => text(contents)],
    ['/debug/pprof/profile', async (request) => await profileReply(request, profiler, 'cpuprofile')],
    ['/debug/pprof/heap', async (request) => await profileReply(request, profiler, 'heapprofile')],
    ['/debug/flags/v', async (request) => await verbosityReply(request, log)],
  ])
}

const contents = `V8 profiles, not Go's pprof. Open them with the developer tools of Chromium or with Visual Studio Code.

/debug/pprof/profile?seconds=30  CPU time during the recording (.cpuprofile)
/debug/pprof/heap?seconds=30     memory allocated during the recording and still in use (.heapprofile)
`

// The default, also for a value that is not a positive number, as in Go.
const usualSeconds = 30
const mostSeconds = 60

async function profileReply(
  { query, signal }: PageRequest,
  profiler: Profiler,
  kind: 'cpuprofile' | 'heapprofile',
): Promise<Reply> {
  const asked = Number.parseInt(query.get('seconds') ?? '', 10)
  const seconds = asked > 0 ? asked : usualSeconds
  if (seconds > mostSeconds) return text(`a profile takes ${mostSeconds} seconds at most\n`, 400)
  const profile = await profiler.record(kind, seconds * 1000, signal)
  if (profile === undefined) return text('another profile is in progress\n', 503)
  return {
    status: 200,
    contentType: 'application/octet-stream',
    body: profile,
    fileName: `viaduct.${kind}`,
  }
}

const highestVerbosity = 2 ** 31 - 1

/** Status codes and texts are those of StringFlagPutHandler in k8s.io/apiserver, with a newline at the end. */
async function verbosityReply({ method, body }: PageRequest, log: AdjustableLog): Promise<Reply> {
  if (method !== 'PUT') return line('unsupported http method', 406)
  const written = await body()
  if (written === undefined) return line('error reading request body', 400)
  // kube-proxy refuses the newline that echo adds.
  const value = written.trim()
  const verbosity = Number(value)
  if (!/^\d+$/u.test(value) || verbosity > highestVerbosity)
    return line(`failed set klog.logging.verbosity ${value}: not a number from 0 to ${highestVerbosity}`, 400)
  log.setVerbosity(verbosity)
  log.info('Log verbosity changed', { by: '/debug/flags/v', v: verbosity })
  return line(`successfully set klog.logging.verbosity to ${value}`, 200)
}

function line(sentence: string, status: number): Reply {
  return { ...text(`${sentence}\n`, status), contentType: 'text/plain' }
}

/**
 * Profiles of this process, by V8's inspector. Makes one recording at a time, since two would distort each other. The inspector opens no
 * port, and is loaded with the first recording.
 */
class Profiler {
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
