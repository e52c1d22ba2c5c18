// The pages /healthz (this node may get traffic) and /livez (the agent works) (F-087 to F-091).
import type { FamilyHealth } from '../engine/index.js'
import { json, type Pages, type Reply } from './reply.js'

/** The data of the two pages. The functions are called for each request. */
export interface HealthFacts {
  /** Health of each programmed family, IPv4 first. */
  readonly families: () => readonly FamilyHealth[]
  /** Whether the Node object lets load balancers send traffic to this node. */
  readonly isNodeEligible: () => boolean
}

/** Counts the replies by status code. */
export interface HealthCounts {
  healthz(code: 200 | 503): void
  livez(code: 200 | 503): void
}

/** `nowMs`: Unix milliseconds. */
export function healthPages(facts: HealthFacts, counts: HealthCounts, nowMs: () => number): Pages {
  return new Map([
    [
      '/healthz',
      () => {
        const families = facts.families().map(asServing)
        const reply = healthReply(families, nowMs(), facts.isNodeEligible())
        counts.healthz(reply.status)
        return reply
      },
    ],
    [
      '/livez',
      () => {
        const reply = healthReply(facts.families(), nowMs(), undefined)
        counts.livez(reply.status)
        return reply
      },
    ],
  ])
}

/** A family that lacks a right is not healthy for traffic. The agent itself works, and a restart does not help: /livez stays as it is. */
function asServing(health: FamilyHealth): FamilyHealth {
  return health.lacksRight === true ? { ...health, isHealthy: false } : health
}

/** `nodeEligible` undefined: the page has no such field. */
function healthReply(
  families: readonly FamilyHealth[],
  nowMs: number,
  nodeEligible: boolean | undefined,
): Reply & { readonly status: 200 | 503 } {
  const now = goTime(nowMs)
  const healthy = families.every(({ isHealthy }) => isHealthy)
  const status = healthy && nodeEligible !== false ? 200 : 503
  const lastUpdated = status === 200 ? now : latest(families)
  const body = {
    lastUpdated,
    currentTime: now,
    ...(nodeEligible === undefined ? {} : { nodeEligible }),
    healthy,
    ...(families.length === 0 ? {} : { status: Object.fromEntries(families.map(familyStatus)) }),
  }
  return { ...json(body), status }
}

function familyStatus({ family, lastUpdatedMs, isHealthy }: FamilyHealth): readonly [string, object] {
  const name = family === 'ipv4' ? 'IPv4' : 'IPv6'
  return [name, { lastUpdated: goTime(lastUpdatedMs), healthy: isHealthy }]
}

function latest(families: readonly FamilyHealth[]): string {
  // Go's zero time means never.
  if (families.length === 0) return '0001-01-01T00:00:00Z'
  return goTime(Math.max(...families.map(({ lastUpdatedMs }) => lastUpdatedMs)))
}

/** The format RFC3339Nano, without trailing zeros in the fraction. */
function goTime(unixMs: number): string {
  return new Date(unixMs).toISOString().replace(/\.?0*Z$/u, 'Z')
}
