import type { IpFamily } from '../address.js'
import type { FeatureGates } from '../config/index.js'
import type { StateReporter } from '../log.js'
import { Tracker } from '../model/index.js'

export interface OpenTrackerOptions {
  readonly family: IpFamily
  readonly config: { readonly featureGates: Pick<FeatureGates, 'AllowServiceExternalIPs'> }
  /** Gets objects that are not programmed, or not completely; of both families. */
  readonly problems: StateReporter
}

/** The tracker of one family, as every mode needs it. */
export function openTracker({ family, config, problems }: OpenTrackerOptions): Tracker {
  return new Tracker(
    family,
    (object, found) => {
      const key = `${family} ${object}`
      if (found === undefined) problems.forget(key)
      else problems.report(key, found.length === 0 ? undefined : { text: `${object}: ${found.join('; ')}` })
    },
    { allowsExternalIPs: config.featureGates.AllowServiceExternalIPs },
  )
}
