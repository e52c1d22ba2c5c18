import { orRefusal } from '../../errors.js'
import {
  noRealServers,
  type Sysctl,
  VirtualServerFlag,
  type VirtualServerSettings,
} from '../../kernel/index.js'
import type { DrainPolicy } from './tables/entry.js'

/** With 1, a client whose session affinity names a real server of weight 0 gets a new one for its next connection. */
const expireSetting = 'net/ipv4/vs/expire_quiescent_template'

/** Decides which unwanted real servers may keep their connections; the others are removed at once. */
export class DrainChoice {
  readonly #sysctl: Sysctl
  readonly #gracefulPeriodMs: number
  #letsClientsGo = false

  constructor(sysctl: Sysctl, gracefulPeriodMs: number) {
    this.#sysctl = sysctl
    this.#gracefulPeriodMs = gracefulPeriodMs
  }

  /** Reads again how the kernel treats clients that are bound to a server. */
  async refresh(): Promise<void> {
    const setting = await orRefusal(async () => await this.#sysctl.read(expireSetting))
    this.#letsClientsGo = setting === '1'
  }

  /**
   * A client with session affinity would never leave a draining server unless the kernel lets it go (kubernetes issue 71809).
   * With a scheduler that chooses draining servers for new clients too, none drains, unless no other real server is left. For UDP
   * the entry keeps only `flowBackends`: a client that keeps sending would never leave a server that is gone (the five minutes
   * without DNS of issue 71514).
   */
  readonly drains: DrainPolicy = ({ protocol, settings, realServers }) => {
    if (this.#gracefulPeriodMs === 0 || protocol === undefined) return false
    if (realServers !== noRealServers && !leavesOut(settings)) return false
    return (settings.flags & VirtualServerFlag.persistent) === 0 || this.#letsClientsGo
  }
}

/**
 * Whether the scheduler gives all new clients to the servers with a weight. These two schedulers also assign clients to a server
 * without weight, and then refuse them (ip_vs_sh.c, ip_vs_dh.c); a flag of one of them prevents this.
 */
function leavesOut({ scheduler, flags }: VirtualServerSettings): boolean {
  if (scheduler === 'sh') return (flags & VirtualServerFlag.scheduler1) !== 0
  return scheduler !== 'dh'
}
