import type { Connections } from './connections.js'
import type { ConfigurationSnapshot } from './configuration.js'
import type { PassSnapshot } from './parts.js'
import type { EndpointRow, RouteRow, ServiceRow } from './rows.js'
import type { Explanation } from './explain.js'
import type { StatusSnapshot } from './status.js'

/** The replies of the control socket by the name of their page: `status` is that of /v1/status. */
export interface Snapshots {
  readonly status: StatusSnapshot
  readonly configuration: ConfigurationSnapshot
  readonly services: { readonly items: readonly ServiceRow[] }
  readonly endpoints: { readonly items: readonly EndpointRow[] }
  readonly routes: { readonly items: readonly RouteRow[] }
  /** The last passes, oldest first. */
  readonly history: { readonly items: readonly PassSnapshot[] }
  readonly connections: Connections
  readonly explain: Explanation
  /** The last lines of the agent's log, oldest first. */
  readonly log: { readonly items: readonly string[] }
  /** The values of all flags as text. */
  readonly flags: Readonly<Record<string, string>>
  /** In the text format of Prometheus. */
  readonly metrics: { readonly text: string }
}
