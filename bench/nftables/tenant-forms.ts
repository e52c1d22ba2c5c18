// The hostile or large tenants of a node, by the name of their form.
import type { TenantText } from '../api/tenants.js'

/** One form. A client of another tenant measures beside it. */
export interface Form {
  /** Added one after the other. */
  readonly tenants: readonly TenantText[]
  /** Datagrams from so many random sources, to the tenant `clients`. */
  readonly datagrams?: number
  /** The tenant whose changes are sent. */
  readonly storm?: { readonly tenant: TenantText; readonly perSecond: number }
  /** The agent has lost events of the ruleset, so that it compares its table as a whole in the next sync period. */
  readonly isCompared?: true
  /**
   * `kept`: another tenant's new clients that stay at their endpoint. `moved`: the time until a client leaves an endpoint of another
   * tenant that is gone.
   */
  readonly affinity?: 'kept' | 'moved'
}

/** The forms. `scale`: the share of each size, above 0 to 1. */
export function formsOf(scale: number): Readonly<Record<string, Form>> {
  const text = (name: string, ...sizes: readonly number[]): TenantText =>
    [name, ...sizes.map((size) => Math.max(2, Math.round(size * scale)))].join(' ')
  const [wide, wider] = [text('wide', 1000, 100), text('wide', 5000, 10)]
  const flapping = text('flapping', 37)
  return {
    quiet: { tenants: [] },
    // More than a table of clients holds: 262,144, as the sources are random.
    'clients-full': { tenants: ['clients'], datagrams: 300_000 * scale, affinity: 'kept' },
    'endpoint-gone': { tenants: ['clients'], datagrams: 100_000 * scale, affinity: 'moved' },
    'timeouts-1000': { tenants: [text('timeouts', 1000)] },
    'timeouts-4000': { tenants: [text('timeouts', 4000)] },
    'external-1000': { tenants: [text('external', 1000, 1000)], isCompared: true },
    'external-3000': { tenants: [text('external', 3000, 1000)], isCompared: true },
    many: { tenants: [text('many', 5000, 100)], isCompared: true },
    flapping: {
      tenants: [text('external', 1000, 1000), flapping],
      storm: { tenant: flapping, perSecond: 2 },
    },
    'wide-1000': { tenants: [wide], storm: { tenant: wide, perSecond: 19 } },
    'wide-5000': { tenants: [wider], storm: { tenant: wider, perSecond: 10 } },
  }
}
