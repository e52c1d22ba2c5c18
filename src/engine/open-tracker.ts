import type { IpFamily } from '../address.js'
import type { FeatureGates } from '../config/index.js'
import { type Log, type Problem, StateReporter } from '../log.js'
import { Tracker } from '../model/index.js'
import { logFamily } from './sync-report.js'

export interface OpenTrackerOptions {
  readonly family: IpFamily
  readonly config: { readonly featureGates: Pick<FeatureGates, 'AllowServiceExternalIPs'> }
  /** Gets objects that are not programmed, or not completely; of both families. */
  readonly problems: StateReporter
  readonly log: Log
}

/** The tracker of one family, as every mode needs it. */
export function openTracker({ family, config, problems, log }: OpenTrackerOptions): Tracker {
  const withoutClusterIP = new StateReporter({
    log,
    level: 'info',
    problemLine: 'Service has no cluster IP',
    recovery: 'Service has a cluster IP now',
  })
  return new Tracker(
    family,
    ({ kind, name }, found, servedAt) => {
      const object = `${kind} ${name}`
      const key = `${family} ${object}`
      if (servedAt !== undefined) withoutClusterIP.report(key, servedWithout(name, servedAt, family))
      else if (found?.length === 0) withoutClusterIP.report(key, undefined)
      else withoutClusterIP.forget(key)
      if (found === undefined) problems.forget(key)
      else problems.report(key, found.length === 0 ? undefined : { text: `${object}: ${found.join('; ')}` })
    },
    { allowsExternalIPs: config.featureGates.AllowServiceExternalIPs },
  )
}

function servedWithout(service: string, servedAt: string, family: IpFamily): Problem {
  return {
    text: `${service} is served at ${servedAt} only`,
    fields: { service, ipFamily: logFamily(family) },
  }
}
