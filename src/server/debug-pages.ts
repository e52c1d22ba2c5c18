// Pages of the metrics server with enableProfiling (F-095, F-123): profiles, and the verbosity of the log.
import type { AdjustableLog } from '../log.js'
import type { Profiler } from './profiler.js'
import { text, type Page, type Pages, type PageRequest, type Reply } from './reply.js'

export interface DebugPagesOptions {
  readonly profiler: Profiler
  readonly log: AdjustableLog
}

/** No list of paths names these pages, as in kube-proxy. */
export function debugPages({ profiler, log }: DebugPagesOptions): Pages {
  return new Map<string, Page>([
    ['/debug/pprof', () => ({ ...text('', 301), location: '/debug/pprof/' })],
    ['/debug/pprof/', () => text(contents)],
    ['/debug/pprof/profile', async (request) => await profileReply(request, profiler, 'cpuprofile')],
    ['/debug/pprof/heap', async (request) => await profileReply(request, profiler, 'heapprofile')],
    ['/debug/flags/v', async (request) => await verbosityReply(request, log)],
  ])
}

const contents = `Profiles of V8, not Go's pprof: open them with the tools for developers of Chromium or Visual Studio Code.

/debug/pprof/profile?seconds=30  CPU profile (.cpuprofile)
/debug/pprof/heap?seconds=30     allocations that are still in use at the end (.heapprofile)
`

// As in Go: also for a text that is no number, and for a number out of range.
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
  if (profile === undefined) return text('another profile is being made\n', 503)
  return {
    status: 200,
    contentType: 'application/octet-stream',
    body: profile,
    fileName: `viaduct.${kind}`,
  }
}

const highestVerbosity = 2 ** 31 - 1

/** Status, sentences and final newline are those of StringFlagPutHandler of k8s.io/apiserver. */
async function verbosityReply({ method, body }: PageRequest, log: AdjustableLog): Promise<Reply> {
  if (method !== 'PUT') return line('unsupported http method', 406)
  const written = await body()
  if (written === undefined) return line('error reading request body', 400)
  // kube-proxy refuses the newline that echo appends.
  const value = written.trim()
  const verbosity = Number(value)
  if (!/^\d+$/u.test(value) || verbosity > highestVerbosity)
    return line(`failed set klog.logging.verbosity ${value}: not a number from 0 to ${highestVerbosity}`, 400)
  log.setVerbosity(verbosity)
  log.info('Verbosity of the log changed', { by: '/debug/flags/v', v: verbosity })
  return line(`successfully set klog.logging.verbosity to ${value}`, 200)
}

function line(sentence: string, status: number): Reply {
  return { ...text(`${sentence}\n`, status), contentType: 'text/plain' }
}
