// Graceful termination: decides when to remove an unwanted real server. Until then it has weight 0 and keeps its connections
// (docs/graceful-termination.md).
import type { IpFamily } from '../../address.js'
import type { Clock } from '../../clock.js'
import { KernelError } from '../../errors.js'
import {
  CountersCursor,
  type IpvsDump,
  noRealServers,
  type RealServer,
  RealServerList,
  describeVirtualServer,
} from '../../kernel/index.js'
import type { Entry } from './tables/entry.js'
import type { IpvsLedger } from './tables/ledger.js'
import { PackedDump } from './tables/packed.js'
import type { IpvsContext } from './context.js'
import { logFamily } from '../../engine/index.js'

/**
 * Delays before the looks at a virtual server. The first look does not come at once: an endpoint that is back within a second keeps
 * its real server, which costs the kernel less than a new one. Then the delay doubles up to `maxDelayMs`: a real server that still
 * has connections usually keeps them for long.
 */
const firstDelayMs = 1000
const maxDelayMs = 10_000

/** The next look waits for this multiple of the duration of the last one, so looks take at most 2 % of the time. */
const restFactor = 50

/**
 * A backend is dead if its endpoint is gone, and if for `silentMs` it has answered none of at least `minUnansweredPackets` packets
 * of its clients. Without a removal, each of its connections would last until the kernel's time-out (900 s for TCP). After the removal
 * the client can reach another endpoint at once. An endpoint that exists but is not ready may answer again, and keeps its connections
 * as in kube-proxy.
 */
const silentMs = 30_000
const minUnansweredPackets = 3

/**
 * The kernel keeps a removed real server for up to `trashMs` in one list, and walks the list for every added real server, some 50 ns
 * an entry (ip_vs_trash_get_dest() of ip_vs_ctl.c). So after `trashRoom` removals within that time, further real servers without
 * connections wait, each for at most `trashMs`.
 */
const trashMs = 180_000
const trashRoom = 200

/** State of a real server from look to look. */
interface Watched {
  /** Time of the first look. */
  readonly sinceMs: number
  /** Time of the first look without a connection, if every later look found none either; undefined: the last look found some. */
  emptyMs: number | undefined
  /** The counters of the last look. */
  last: Seen
  /** Packets and bytes from the clients between the last two looks that differ in them. */
  requests: Traffic
  /**
   * Packets in both directions at the first look that found no new packet from the backend. Those from the clients include their
   * acknowledgements of its last packet. undefined: there was no such look since that packet.
   */
  silence: { readonly inPackets: number; readonly outPackets: number } | undefined
  /** Time of the first look that found more from the clients than `silence`, and still no answer; undefined: there was no such look. */
  unansweredMs: number | undefined
}

interface Schedule {
  dueMs: number
  delayMs: number
  /** Number of draining real servers when it was last counted. If it grows, the next look comes soon. */
  count: number
  /** By the identity of the real server (`RealServerList.idAt`). */
  readonly reals: Map<string, Watched>
}

/** Counters of one real server in the kernel. */
interface Seen {
  readonly connections: number
  /** From the clients. */
  readonly in: Traffic
  /** From the backend. */
  readonly out: Traffic
}

interface Traffic {
  readonly packets: number
  readonly bytes: number
}

type End = 'no connections' | 'no answers' | 'grace period over'

/**
 * Ends the draining of real servers by the kernel's counters of their virtual servers. The ledger then removes them. It reads the
 * kernel only while a real server drains.
 */
export class Draining {
  readonly #context: IpvsContext
  readonly #ledger: IpvsLedger
  readonly #clock: Pick<Clock, 'now'>
  readonly #schedules = new Map<Entry, Schedule>()
  /** No look comes before this time, so that frequent runs do not walk all draining virtual servers. */
  #nextMs = -Infinity
  /** Real servers drained at the last look or write. */
  #isWatching = false
  /** Times at which draining ended for real servers that the kernel may still keep in its list. */
  #trash: number[] = []

  constructor(context: IpvsContext, ledger: IpvsLedger) {
    this.#context = context
    this.#ledger = ledger
    this.#clock = context.lookClock ?? context.clock
  }

  /** Milliseconds until the next look; undefined: nothing drains. */
  nextInMs(): number | undefined {
    return this.#ledger.draining.size === 0 ? undefined : Math.max(0, this.#nextMs - this.#clock.now())
  }

  /** A write is over. If it is the first one that leaves real servers draining, their first look comes after `firstDelayMs`. */
  noteWritten(): void {
    const nowMs = this.#clock.now()
    if (this.#isWatching || this.#ledger.draining.size === 0 || nowMs < this.#nextMs) return
    this.#isWatching = true
    if (this.#due(nowMs).length === 0) this.#nextMs = nowMs + firstDelayMs
  }

  /**
   * Looks at the virtual servers that are due. False: the kernel differs from the acknowledged state. A refusal of the kernel is
   * reported, and the next look tries again.
   */
  async look(): Promise<boolean> {
    const [clock, ledger] = [this.#clock, this.#ledger]
    const startMs = clock.now()
    this.#isWatching = ledger.draining.size > 0
    if (!this.#isWatching || startMs < this.#nextMs) return true
    this.#nextMs = startMs + firstDelayMs
    for (const entry of this.#schedules.keys()) if (!ledger.draining.has(entry)) this.#schedules.delete(entry)
    this.#trash = this.#trash.filter((ms) => startMs - ms < trashMs)
    const due = this.#due(startMs)
    if (due.length === 0) return true
    const { kernel, questions } = this.#context
    const question = { key: 'draining', subject: 'connections of draining real servers' }
    const keys = due.map(({ key }) => key)
    const dump = await questions.ask(question, () => kernel.ipvs.read(keys, { counters: true }))
    if (dump instanceof KernelError) return true
    const endMs = clock.now()
    this.#nextMs = Math.max(this.#nextMs, endMs + (endMs - startMs) * restFactor)
    const seen = seenIn(dump, due)
    return due.map((entry) => this.#settle(entry, seen.get(entry) ?? [])).every(Boolean)
  }

  /** A stale entry waits for the reconcile that reads the kernel's state. */
  #due(nowMs: number): readonly Entry[] {
    return [...this.#ledger.draining].filter(
      (entry) => !entry.isStale && this.#scheduleOf(entry, nowMs).dueMs <= nowMs,
    )
  }

  #scheduleOf(entry: Entry, nowMs: number): Schedule {
    let schedule = this.#schedules.get(entry)
    if (schedule === undefined) {
      schedule = { dueMs: Infinity, delayMs: firstDelayMs, count: 0, reals: new Map() }
      this.#schedules.set(entry, schedule)
    }
    const { length } = entry.draining
    if (length > schedule.count) {
      schedule.delayMs = firstDelayMs
      schedule.dueMs = Math.min(schedule.dueMs, nowMs + firstDelayMs)
    }
    schedule.count = length
    return schedule
  }

  /** `seen`: by the index of the draining real server. False: the kernel differs from the acknowledged state. */
  #settle(entry: Entry, seen: readonly (Seen | undefined)[]): boolean {
    const [clock, ledger] = [this.#clock, this.#ledger]
    const nowMs = clock.now()
    const schedule = this.#scheduleOf(entry, nowMs)
    const { draining } = entry
    const ids = Array.from({ length: draining.length }, (_, index) => draining.idAt(index))
    const present = new Set(ids)
    for (const id of schedule.reals.keys()) if (!present.has(id)) schedule.reals.delete(id)
    const heldBack = entry.acknowledged?.realServers.heldBack ?? noRealServers
    const ended: RealServer[] = []
    let isAsExpected = true
    let waiting = 0
    for (const [index, id] of ids.entries()) {
      if (heldBack.indexOf(draining, index) < 0) continue
      const now = seen[index]
      if (now === undefined) {
        isAsExpected = false
        continue
      }
      const real = draining.at(index)
      const watched = this.#watch(schedule, id, now)
      const end = this.#endOf({ entry, real, now, watched, nowMs })
      if (end === undefined) {
        if (watched.emptyMs !== undefined) waiting++
        continue
      }
      ended.push(real)
      this.#trash.push(nowMs)
      schedule.reals.delete(id)
      this.#logEnd(entry, real, end)
    }
    schedule.delayMs = Math.min(schedule.delayMs * 2, maxDelayMs)
    if (ended.length > 0) ledger.keepDraining(entry, draining.minus(RealServerList.of(ended)))
    schedule.count = entry.draining.length
    // Real servers that only wait for the kernel to forget others need no look before that.
    schedule.dueMs = nowMs + (waiting === schedule.count ? trashMs : schedule.delayMs)
    return isAsExpected
  }

  /** Whether a real server that has had no connections since `emptyMs` may be removed (see `trashMs`). */
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
    if (nowMs - watched.sinceMs >= this.#context.config.ipvs.gracefulPeriodMs) return 'grace period over'
    // Answers pass this node only where it translates addresses; UDP clients may expect none.
    const isHeard = real.settings.forwarding === 'masquerade' && entry.wanted?.protocol !== 'udp'
    const { route } = entry
    const isGone = route === undefined || !this.#context.hasEndpoint(route, real.key)
    return isHeard && isGone && isSilent(watched, now, nowMs) ? 'no answers' : undefined
  }

  /** Updates the state of the real server with the counters of this look. */
  #watch({ reals }: Schedule, id: string, now: Seen): Watched {
    const nowMs = this.#clock.now()
    let watched = reals.get(id)
    if (watched === undefined) {
      const requests = { packets: 0, bytes: 0 }
      watched = {
        sinceMs: nowMs,
        emptyMs: undefined,
        last: now,
        requests,
        silence: undefined,
        unansweredMs: undefined,
      }
      reals.set(id, watched)
    } else if (this.#hasAnswered(watched, now)) {
      Object.assign(watched, { silence: undefined, unansweredMs: undefined })
    } else if (watched.silence === undefined) {
      watched.silence = { inPackets: now.in.packets, outPackets: now.out.packets }
    } else if (watched.silence.inPackets !== now.in.packets) {
      watched.unansweredMs ??= nowMs
    }
    watched.last = now
    watched.emptyMs = now.connections > 0 ? undefined : (watched.emptyMs ?? nowMs)
    return watched
  }

  /** Whether the backend has sent something since the last look. */
  #hasAnswered(watched: Watched, now: Seen): boolean {
    const requests = difference(now.in, watched.last.in)
    if (requests.packets > 0) watched.requests = requests
    const answers = difference(now.out, watched.last.out)
    return answers.packets > 0 && !areErrors(this.#context.family, watched.requests, answers)
  }

  #logEnd(entry: Entry, { key }: RealServer, reason: End): void {
    const { family, log } = this.#context
    if (reason === 'no connections' && !log.writes('debug')) return
    const object = `${describeVirtualServer(entry.key)} -> ${key.address} ${key.port}`
    const fields = { service: entry.service, ipFamily: logFamily(family), object, reason }
    if (reason === 'no connections') log.debug('Real server has drained', fields)
    else log.info('Real server is removed with its connections', fields)
  }
}

function isSilent({ silence, unansweredMs }: Watched, now: Seen, nowMs: number): boolean {
  if (silence === undefined || unansweredMs === undefined || nowMs - unansweredMs < silentMs) return false
  const requests = now.in.packets - silence.inPackets
  const errors = now.out.packets - silence.outPackets
  // Each request has an error, apart from the last ones, unless the sender of the errors limits their rate. An answer that the client
  // acknowledges is one for two packets.
  return requests >= minUnansweredPackets && (errors === 0 || errors >= requests * 0.75)
}

function difference(now: Traffic, before: Traffic): Traffic {
  return { packets: now.packets - before.packets, bytes: now.bytes - before.bytes }
}

/**
 * Whether these answers are the ICMP errors "host unreachable" of this node or of a router, and not the backend's. IPVS counts an
 * error about a connection as a packet of the backend (handle_response_icmp() of ip_vs_core.c). An error has the headers of IP and of
 * ICMP, and quotes the client's packet, up to 576 bytes in all by IPv4 and 1280 by IPv6 (icmp.c of both families). The clients of a
 * dead backend send the same again, so that the sizes agree on average. If they send packets of several sizes, they may not: then
 * the errors count as answers, and the real server stays. Answers that are all longer than their requests by just these headers count
 * as errors, if none is acknowledged by a packet of its own.
 */
function areErrors(family: IpFamily, requests: Traffic, answers: Traffic): boolean {
  if (requests.packets === 0) return false
  const { headers, most } = errorSizes[family]
  const size = Math.min(requests.bytes / requests.packets + headers, most)
  return Math.abs(answers.bytes - size * answers.packets) < 0.5
}

/** Bytes of an ICMP error: its own headers, and the most that it has. */
const errorSizes = {
  ipv4: { headers: 28, most: 576 },
  ipv6: { headers: 48, most: 1280 },
} as const

/** The counters of the draining real servers of these virtual servers; undefined: the kernel lacks one, or gives it new connections. */
function seenIn(
  ipvs: IpvsDump,
  entries: readonly Entry[],
): ReadonlyMap<Entry, readonly (Seen | undefined)[]> {
  const dump = new PackedDump(ipvs)
  const counters = new CountersCursor(ipvs.realServerCounters ?? new Uint8Array())
  const seenAt = (record: number): Seen => ({
    connections: counters.activeConnections(record) + counters.inactiveConnections(record),
    in: { packets: counters.inPackets(record), bytes: counters.inBytes(record) },
    out: { packets: counters.outPackets(record), bytes: counters.outBytes(record) },
  })
  const { places } = dump
  const found = new Map<Entry, readonly (Seen | undefined)[]>()
  for (const entry of entries) {
    const server = places.get(entry.packedId)
    if (server === undefined) continue
    const { realServers } = dump.state(server)
    const seen = Array.from(entry.draining, (_real, index) => {
      const place = realServers.indexOf(entry.draining, index)
      return place >= 0 && realServers.isHeldBack(place) ? seenAt(dump.firstReal(server) + place) : undefined
    })
    found.set(entry, seen)
  }
  return found
}
