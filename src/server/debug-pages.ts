// The debug pages of the metrics server, with enableProfiling (F-095, F-123): profiles, and the log verbosity.
import type { AdjustableLog } from '../log.js'
import type { Profiler } from './profiler.js'
import { text, type Page, type Pages, type PageRequest, type Reply } from './reply.js'

export interface DebugPagesOptions {
  readonly profiler: Profiler
  readonly log: AdjustableLog
}

/** The debug pages. /statusz does not list them, as in kube-proxy. */
export function debugPages({ profiler, log }: DebugPagesOptions): Pages {
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
