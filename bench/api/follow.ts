// The agent from the API source to the model: follows an API server, and the tracker marks changes. It is bundled and
// started like the agent.
//   node agent.js -- URL CA_FILE [gaps]
// With `gaps` it also measures the longest gap of its event loop, which itself costs as much CPU as many events.
// Prints `listed` with its figures when all kinds are listed and modelled, and its figures again for every input line.
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { openLog, StateReporter } from '../../src/log.js'
import { Tracker } from '../../src/model/index.js'
import { endStartOfV8, prepareV8, releaseMemory } from '../../src/process/index.js'
import { KubernetesSource } from '../../src/source/kubernetes/kubernetes-source.js'
import type { ObjectEvent } from '../../src/source/index.js'
import { longestGap, watchLoop, type Gap } from '../stage/loop-watch.js'
import { systemClock } from '../../src/clock.js'

prepareV8(systemClock)
const [server = '', caFile = '', option] = process.argv.slice(3)
const gaps: readonly Gap[] = option === 'gaps' ? watchLoop() : []
const log = openLog({ format: 'json', verbosity: 0, destination: process.stderr, clock: systemClock })
const reporter = (): StateReporter =>
  new StateReporter({ log, level: 'error', problemLine: 'API problem', recovery: 'API problem ended' })
const tracker = new Tracker()
const families = (['ipv4', 'ipv6'] as const).map((family) => tracker.of(family))
let events = 0
let dirty = 0

function take(batch: readonly ObjectEvent[]): void {
  for (const event of batch) tracker.apply(event)
  events += batch.length
  if (batch.some(({ type }) => type === 'synced')) void whenListed()
  else for (const family of families) dirty += family.take().size
}

async function whenListed(): Promise<void> {
  report('listed')
  endStartOfV8()
  await releaseMemory(systemClock)
  report('rested')
}

function report(what: string): void {
  const { user, system } = process.cpuUsage()
  const gap = longestGap(gaps)
  const figures = {
    atNs: String(process.hrtime.bigint()),
    cpuMs: (user + system) / 1000,
    rssMiB: process.memoryUsage.rss() / 1024 / 1024,
    gapMs: gap.ms,
    gapWallMs: gap.wallMs,
    events,
    dirty,
  }
  process.stdout.write(`${what} ${JSON.stringify(figures)}\n`)
}

const login = {
  headers: { authorization: 'Bearer token' },
  tls: { ca: readFileSync(caFile, 'utf8') },
  trusted: caFile,
}
const source = new KubernetesSource({
  client: {
    server: new URL(server),
    login: async () => await Promise.resolve(login),
  },
  nodeName: 'node-a',
  clock: systemClock,
  random: Math.random,
  log,
  problems: reporter(),
  links: reporter(),
  onCrash: (error) => {
    throw error
  },
})
source.followNodes('own')
void source.start(take)
createInterface({ input: process.stdin }).on('line', () => report('now'))
