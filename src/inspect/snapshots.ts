import type { Explanation } from './explain.js'
import type { StatusSnapshot } from './status.js'

/** The replies of the control socket by the name of their page: `status` is that of /v1/status. */
export interface Snapshots {
  readonly status: StatusSnapshot
  readonly explain: Explanation
}
