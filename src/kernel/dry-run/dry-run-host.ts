// Settings, flows, sockets and the relay in a dry run.
import { closeSync, constants as fileConstants, openSync } from 'node:fs'
import { constants } from 'node:os'
import { join } from 'node:path'
import { KernelError, orRefusal } from '../../errors.js'
import type { Conntrack, ConntrackFrontend } from '../conntrack/conntrack.js'
import type { KernelLook } from '../look/kernel-look.js'
import type { Listener, PortOp, PortPlace, Ports } from '../ports/ports.js'
import { describePlace } from '../ports/real-ports.js'
import { describeRelayOp, familyOfRelayOp, type Relay } from '../relay/relay.js'
import { type Sysctl, toSysctlError } from '../system/sysctl.js'
import { QuietWatch, takeBatch, withMembers } from './take-batch.js'
import type { TakeTransaction } from './transaction.js'

const { EADDRINUSE, ENOENT } = constants.errno

/** Settings of modules that a start loads before it writes them. */
const loadedLater = /^net\/(?:netfilter\/nf_conntrack_|ipv4\/vs\/)/u

/** The settings, with the written values: each family writes those of a mode. `root`: /proc/sys. */
export function dryRunSysctl(real: Sysctl, root: string, take: TakeTransaction): Sysctl {
  const written = new Map<string, string>()
  /** An open file without a write changes nothing. */
  const check = (path: string): void => {
    try {
      closeSync(openSync(join(root, path), fileConstants.O_WRONLY))
    } catch (error) {
      throw toSysctlError(error, 'write', path)
    }
  }
  return {
    read: async (path) => written.get(path) ?? (await real.read(path)),
    // Throws as a write, except EINVAL for a value that the kernel does not take.
    write: async (path, value) => {
      const refusal = await orRefusal(async () => {
        if (!loadedLater.test(path) || (await real.read(path)) !== undefined) check(path)
      })
      const isRefused = refusal instanceof KernelError
      take({ part: 'sysctl', path, value, isRefused })
      if (isRefused) throw refusal
      written.set(path, value)
    },
  }
}

/** No flow is deleted or listed. */
export function dryRunConntrack(real: Conntrack, take: TakeTransaction): Conntrack {
  return withMembers(real, {
    deleteStale: async (family, frontends) => {
      const wanted = frontends.filter((frontend) => !isProbe(frontend))
      if (wanted.length > 0) take({ part: 'conntrack', family, frontends: wanted })
      return { seen: undefined, deleted: 0 }
    },
    listFlows: async () => ({ flows: [], total: 0 }),
    countFlows: async () => [],
  })
}

/** An address of TEST-NET-2 (RFC 5737), which no flow has: the request only makes the kernel load modules. */
function isProbe({ address }: ConntrackFrontend): boolean {
  return address?.startsWith('198.51.100.') === true
}

/**
 * No socket is opened. A port that another agent holds counts as free: that agent frees it at its end. `canAsk` false: a question about
 * sockets would load modules of the kernel.
 */
export function dryRunPorts(real: Ports, canAsk: boolean, take: TakeTransaction): Ports {
  const held = new Map<string, PortPlace>()
  const find: Ports['find'] = async (family, ports) => (canAsk ? await real.find(family, ports) : [])
  /** The places that a program other than an agent listens on. */
  const findTaken = async (places: readonly PortPlace[]): Promise<ReadonlySet<string>> => {
    const taken = new Set<string>()
    for (const family of ['ipv4', 'ipv6'] as const) {
      const own = places.filter((place) => place.family === family)
      const asked = own.flatMap(({ protocol, port }) => (protocol === 'sctp' ? [] : [{ protocol, port }]))
      const listeners = asked.length === 0 ? [] : await find(family, asked)
      for (const place of own)
        if (listeners.some((each) => !each.isHeld && isConflict(each, place))) taken.add(keyOf(place))
    }
    return taken
  }
  return withMembers(real, {
    apply: async (ops) => {
      const taken = await findTaken(ops.flatMap(({ op, place }) => (op === 'hold' ? [place] : [])))
      const words = {
        subsystem: 'ports',
        describe: ({ place }: PortOp) => describePlace(place),
        familyOf: ({ place }: PortOp) => place.family,
      } as const
      const answer = ({ op, place }: PortOp): number => {
        const key = keyOf(place)
        if (op === 'release') return held.delete(key) ? 0 : ENOENT
        if (taken.has(key)) return EADDRINUSE
        held.set(key, place)
        return 0
      }
      const outcome = takeBatch(ops, words, answer, (own) => take({ part: 'ports', ops: own }))
      return { ...outcome, storeError: undefined }
    },
    list: async () => [...held.values()],
    find,
  })
}

function keyOf(place: PortPlace): string {
  return `${place.family} ${describePlace(place)}`
}

function isConflict(listener: Listener, { protocol, address, port }: PortPlace): boolean {
  const isSamePort = listener.protocol === protocol && listener.port === port
  return (
    isSamePort && (address === undefined || listener.address === undefined || listener.address === address)
  )
}

/** Nothing listens. */
export function dryRunRelay(real: Relay, take: TakeTransaction): Relay {
  const conditions = new QuietWatch()
  const words = { subsystem: 'relay', describe: describeRelayOp, familyOf: familyOfRelayOp } as const
  return withMembers(real, {
    configure: async () => {},
    apply: async (ops) =>
      takeBatch(
        ops,
        words,
        () => 0,
        (taken) => take({ part: 'relay', ops: taken }),
      ),
    nextConditions: async () => await conditions.next(),
    close: async () => {
      await conditions.close()
      await real.close()
    },
  })
}

/** Sees no change. A real look would create absent tables. */
export const quietLook = (): KernelLook => ({
  take: async () => new Uint8Array(0),
  watch: () => new QuietWatch(),
  watchTables: () => new QuietWatch(),
  close: async () => {},
})
