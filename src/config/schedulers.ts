// Schedulers of IPVS, and their flags by the names of ipvsadm.
import { ConfigError } from '../errors.js'

/** Flags by scheduler; other schedulers have none (net/netfilter/ipvs/ip_vs_sh.c, ip_vs_mh.c). */
const flagsByScheduler = {
  sh: ['sh-fallback', 'sh-port'],
  mh: ['mh-fallback', 'mh-port'],
} as const

export type SchedulerFlag = (typeof flagsByScheduler)[keyof typeof flagsByScheduler][number]

/** How virtual servers spread connections. */
export interface Scheduling {
  /** Any that the kernel has; its first use shows whether the kernel has it. */
  readonly scheduler: string
  readonly schedulerFlags: readonly SchedulerFlag[]
}

interface SchedulingText {
  readonly scheduler?: string | undefined
  /** Names; `none` alone for no flag at all. Absent or empty: the flags that kube-proxy sets. */
  readonly schedulerFlags?: readonly string[] | undefined
}

/** The wrong field, and one sentence. */
interface SchedulingProblem {
  readonly field: keyof SchedulingText
  readonly problem: string
}

// linux/ip_vs.h IP_VS_SCHEDNAME_MAXLEN is 16 with its closing NUL.
const schedulerName = /^[a-z0-9_-]{1,15}$/u

/** Whether the kernel could have a scheduler with this name. */
export function isSchedulerName(text: string): boolean {
  return schedulerName.test(text)
}

/** The scheduling of a text, with `rr` for a blank scheduler; or its problem. */
export function readScheduling(text: SchedulingText): Scheduling | SchedulingProblem {
  const scheduler = text.scheduler === undefined || text.scheduler === '' ? 'rr' : text.scheduler
  if (!isSchedulerName(scheduler)) {
    const problem = `must be a scheduler of the kernel such as rr, lc or mh, not "${scheduler}"`
    return { field: 'scheduler', problem }
  }
  const written = text.schedulerFlags ?? []
  if (written.length === 0) return { scheduler, schedulerFlags: flagsOfKubeProxy(scheduler) }
  if (written.length === 1 && written[0] === 'none') return { scheduler, schedulerFlags: [] }
  const known = flagsOf(scheduler)
  const wrong = written.find((name) => !known.some((flag) => flag === name))
  if (wrong !== undefined) {
    const has = known.length === 0 ? 'which has none' : `which has: ${known.join(', ')}`
    return { field: 'schedulerFlags', problem: `"${wrong}" is no flag of the scheduler ${scheduler}, ${has}` }
  }
  return { scheduler, schedulerFlags: known.filter((flag) => written.includes(flag)) }
}

/** The name of a scheduler for the configuration; blank: rr. Throws ConfigError. */
export function requireScheduler(scheduler: string, field: string): string {
  return requireValid(readScheduling({ scheduler }), field).scheduler
}

/** The flags of `scheduler` for the configuration. Throws ConfigError. */
export function requireSchedulerFlags(
  scheduler: string,
  schedulerFlags: readonly string[],
  field: string,
): readonly SchedulerFlag[] {
  return requireValid(readScheduling({ scheduler, schedulerFlags }), field).schedulerFlags
}

function requireValid(scheduling: Scheduling | SchedulingProblem, field: string): Scheduling {
  if ('problem' in scheduling) throw new ConfigError(field, scheduling.problem)
  return scheduling
}

function flagsOf(scheduler: string): readonly SchedulerFlag[] {
  return scheduler === 'sh' || scheduler === 'mh' ? flagsByScheduler[scheduler] : []
}

/** kube-proxy sets mh-port for Maglev, which then hashes the source port too (F-113). */
function flagsOfKubeProxy(scheduler: string): readonly SchedulerFlag[] {
  return scheduler === 'mh' ? ['mh-port'] : []
}
