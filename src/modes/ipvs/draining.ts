// Graceful termination: when an unwanted real server, which only keeps its connections, is removed.
import type { IpFamily } from '../../address.js'
import { KernelError } from '../../errors.js'
import {
  CountersCursor,
  type Ipvs,
  type IpvsDump,
  type RealServer,
  type RealServerKey,
  RealServerCursor,
  VirtualServerCursor,
  describeVirtualServer,
} from '../../kernel/index.js'
import type { Entry } from './tables/entry.js'
import type { IpvsLedger } from './tables/ledger.js'
import { realServerId } from './tables/diff.js'
import type { Log, StateReporter } from '../../log.js'
import type { FamilyMetrics } from '../../metrics/index.js'
import type { ServicePortKey } from '../../model/index.js'
import type { Clock } from '../../clock.js'
import { KernelQuestions, logFamily } from '../../engine/index.js'

export interface DrainingOptions {
  readonly family: IpFamily
  readonly ipvs: Pick<Ipvs, 'read'>
  readonly clock: Clock
  readonly metrics: FamilyMetrics
  readonly log: Log
  readonly problems: StateReporter
  readonly ledger: Pick<IpvsLedger, 'draining' | 'finishDraining'>
  /** A real server goes after this time at the latest, whoever is still connected; Infinity: no limit. */
  readonly gracefulPeriodMs: number
  /** Whether the service port has no such endpoint any more, ready or not, or does not exist itself. */
  readonly isGone: (route: ServicePortKey | undefined, endpoint: RealServerKey) => boolean
}

/**
 * First looks come soon, but not at once: an endpoint that is back within a second gets its real server back, which costs the
 * kernel less than a new one. Then waits grow: most have no connection at all, the others have theirs for long.
 */
const firstDelayMs = 1000
const maxDelayMs = 10_000

/** Looks take no more than 1 / 50 of the time, however many there are to look at. */
const restFactor = 50

/**
 * A backend whose endpoint is gone, and that has sent nothing for so long since its clients began to ask, and then this often, is
 * dead. Each of those connections would wait for the kernel's time-out (900 s for TCP), where a removal lets the client try
 * elsewhere at once. An endpoint that is only not ready may answer again, and keeps its connections as in kube-proxy.
 */
const silentMs = 30_000
const packetsInVain = 3

/**
 * The kernel keeps what is removed for up to so long in one list, and every added real server walks it (some 50 ns an entry:
 * spec/kernel.md 2.3). So only so many go at once; the others when those are forgotten.
 */
const trashMs = 180_000
const trashRoom = 200

/** What is remembered of a real server from look to look. */
interface Watched {
  readonly sinceMs: number
  /** When it was first seen without a connection: it will not get any more. */
  emptyMs: number | undefined
  /** What the backend has sent. */
  outPackets: number
  /** What its clients had sent when all was quiet after its last packet, which they acknowledge; undefined: it is too early. */
  inPackets: number | undefined
  /** When more than that was first seen, without an answer. */
  unansweredMs: number | undefined
}

interface Schedule {
  dueMs: number
  delayMs: number
  /** Real servers that drained when it was last looked at. */
  count: number
  readonly reals: Map<string, Watched>
}

/** What the kernel says of one real server. */
interface Seen {
  readonly weight: number
  readonly connections: number
  readonly inPackets: number
  readonly outPackets: number
}

type End = 'no connections' | 'no answers' | 'grace period over'

/**
 * Looks after the real servers that drain, in the kernel's counters of just their virtual servers, and ends what is over.
 * Only while something drains, and only for that.
 */
export class Draining {
  readonly #options: DrainingOptions
  readonly #questions: KernelQuestions
  readonly #schedules = new Map<Entry, Schedule>()
  /** Whether somebody is due is not asked before, so that frequent runs do not walk all each time. */
  #nextMs = -Infinity
  /** When each went that the kernel may still keep. */
  #trash: number[] = []

  constructor(options: DrainingOptions) {
    this.#options = options
    this.#questions = new KernelQuestions(options)
  }

  /** Milliseconds until the next look; undefined: nothing drains. */
  nextInMs(): number | undefined {
    const { clock, ledger } = this.#options
    return ledger.draining.size === 0 ? undefined : Math.max(0, this.#nextMs - clock.now())
  }

  /** Looks where it is time to. False: the kernel does not hold what it acknowledged. */
  async look(): Promise<boolean> {
    const { clock, ledger } = this.#options
    const startMs = clock.now()
    if (ledger.draining.size === 0 || startMs < this.#nextMs) return true
    this.#nextMs = startMs + firstDelayMs
    for (const entry of this.#schedules.keys()) if (!ledger.draining.has(entry)) this.#schedules.delete(entry)
    this.#trash = this.#trash.filter((ms) => startMs - ms < trashMs)
    const due = [...ledger.draining].filter((entry) => this.#isDue(entry, startMs))
    if (due.length === 0) return true
    const dump = await this.#read(due)
    if (dump instanceof KernelError) return true
    const endMs = clock.now()
    this.#nextMs = Math.max(this.#nextMs, endMs + (endMs - startMs) * restFactor)
    const counters = readCounters(dump)
    const answers = due.map((entry) => this.#settle(entry, counters.get(describeVirtualServer(entry.key))))
    return answers.every(Boolean)
  }

  /** A KernelError: the next look tries again. */
  async #read(entries: readonly Entry[]): Promise<IpvsDump | KernelError> {
    const keys = entries.map(({ key }) => key)
    return await this.#questions.ask(
      { key: 'draining', subject: 'connections of draining real servers' },
      async () => await this.#options.ipvs.read(keys, { counters: true }),
    )
  }

  #isDue(entry: Entry, nowMs: number): boolean {
    // A stale one waits for the reconcile that tells what the kernel holds.
    return !entry.isStale && this.#scheduleOf(entry, nowMs).dueMs <= nowMs
  }

  #scheduleOf(entry: Entry, nowMs: number): Schedule {
    let schedule = this.#schedules.get(entry)
    if (schedule === undefined) {
      schedule = { dueMs: Infinity, delayMs: firstDelayMs, count: 0, reals: new Map() }
      this.#schedules.set(entry, schedule)
    }
    const { size } = entry.draining
    if (size > schedule.count) {
      schedule.delayMs = firstDelayMs
      schedule.dueMs = Math.min(schedule.dueMs, nowMs + firstDelayMs)
    }
    schedule.count = size
    return schedule
  }

  /** False: the kernel says something else than what was acknowledged. */
  #settle(entry: Entry, seen: ReadonlyMap<string, Seen> | undefined): boolean {
    const { clock, ledger } = this.#options
    const nowMs = clock.now()
    const schedule = this.#scheduleOf(entry, nowMs)
    for (const id of schedule.reals.keys()) if (!entry.draining.has(id)) schedule.reals.delete(id)
    const ended = new Set<string>()
    let isAsExpected = true
    let waiting = 0
    const { heldBack } = entry
    for (const [id, real] of entry.draining) {
      if (!heldBack.has(id)) continue
      const now = seen?.get(id)
      if (now === undefined || now.weight !== 0) {
        isAsExpected = false
        continue
      }
      const watched = watch(schedule, id, now, nowMs)
      const end = this.#endOf({ entry, real, now, watched, nowMs })
      if (end === undefined) {
        if (watched.emptyMs !== undefined) waiting++
        continue
      }
      ended.add(id)
      this.#trash.push(nowMs)
      schedule.reals.delete(id)
      this.#logEnd(entry, real, end)
    }
    schedule.delayMs = Math.min(schedule.delayMs * 2, maxDelayMs)
    if (ended.size > 0) ledger.finishDraining(entry, ended)
    schedule.count = entry.draining.size
    // Those that only wait for room in the trash need no look.
    schedule.dueMs = nowMs + (waiting === schedule.count ? trashMs : schedule.delayMs)
    return isAsExpected
  }

  /** Whether a real server that is empty since then may go. */
  #hasRoom(emptyMs: number, nowMs: number): boolean {
    if (nowMs - emptyMs >= trashMs) return true
    return this.#trash.length < trashRoom
  }

  #endOf({
    entry,
    real,
    now,
    watched,
    nowMs,
  }: {
    readonly entry: Entry
    readonly real: RealServer
    readonly now: Seen
    readonly watched: Watched
    readonly nowMs: number
  }): End | undefined {
    if (watched.emptyMs !== undefined)
      return this.#hasRoom(watched.emptyMs, nowMs) ? 'no connections' : undefined
    if (nowMs - watched.sinceMs >= this.#options.gracefulPeriodMs) return 'grace period over'
    // Answers pass this node only where it translates addresses; UDP clients may expect none.
    const isHeard = real.settings.forwarding === 'masquerade' && entry.wanted?.protocol !== 'udp'
    const isDead = isHeard && isSilent(watched, now, nowMs) && this.#options.isGone(entry.route, real.key)
    return isDead ? 'no answers' : undefined
  }

  #logEnd(entry: Entry, { key }: RealServer, reason: End): void {
    const { family, log } = this.#options
    if (reason === 'no connections' && !log.writes('debug')) return
    const object = `${describeVirtualServer(entry.key)} -> ${realServerId(key)}`
    const fields = { service: entry.service, ipFamily: logFamily(family), object, reason }
    if (reason === 'no connections') log.debug('Real server has drained', fields)
    else log.info('Real server is removed with its connections', fields)
  }
}

/** What is remembered of the real server, with what is seen now taken in. */
function watch({ reals }: Schedule, id: string, now: Seen, nowMs: number): Watched {
  const { inPackets, outPackets } = now
  let watched = reals.get(id)
  if (watched === undefined) {
    watched = {
      sinceMs: nowMs,
      emptyMs: undefined,
      outPackets,
      inPackets: undefined,
      unansweredMs: undefined,
    }
    reals.set(id, watched)
  } else if (watched.outPackets !== outPackets) {
    Object.assign(watched, { outPackets, inPackets: undefined, unansweredMs: undefined })
  } else if (watched.inPackets === undefined) {
    watched.inPackets = inPackets
  } else if (watched.inPackets !== inPackets) {
    watched.unansweredMs ??= nowMs
  }
  watched.emptyMs = now.connections > 0 ? undefined : (watched.emptyMs ?? nowMs)
  return watched
}

function isSilent({ inPackets, unansweredMs }: Watched, now: Seen, nowMs: number): boolean {
  if (inPackets === undefined || unansweredMs === undefined) return false
  return nowMs - unansweredMs >= silentMs && now.inPackets - inPackets >= packetsInVain
}

/** By the virtual server's words and the real server's identity. */
function readCounters(dump: IpvsDump): ReadonlyMap<string, ReadonlyMap<string, Seen>> {
  const servers = new VirtualServerCursor(dump.virtualServers)
  const reals = new RealServerCursor(dump.realServers)
  const counters = new CountersCursor(dump.realServerCounters ?? new Uint8Array())
  const seenOf = (index: number): readonly [string, Seen] => [
    realServerId(reals.key(index)),
    {
      weight: reals.weight(index),
      connections: counters.activeConnections(index) + counters.inactiveConnections(index),
      inPackets: counters.inPackets(index),
      outPackets: counters.outPackets(index),
    },
  ]
  const entries = Array.from({ length: servers.length }, (_, i) => {
    const first = servers.firstReal(i)
    const seen = Array.from({ length: servers.realCount(i) }, (_unused, j) => seenOf(first + j))
    return [describeVirtualServer(servers.key(i)), new Map(seen)] as const
  })
  return new Map(entries)
}
