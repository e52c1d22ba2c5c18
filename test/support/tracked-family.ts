// The objects of one family, in a tracker of its own.
import type { IpFamily } from '../../src/address.js'
import { type FamilyTracker, type ReportProblems, Tracker } from '../../src/model/index.js'
import type { ObjectEvent } from '../../src/source/index.js'

export interface TrackedFamily extends FamilyTracker {
  /** Returns whether the event changed something in the family. */
  apply(event: ObjectEvent): boolean
}

/** `rules`: as those of `Tracker`. */
export function trackFamily(
  family: IpFamily,
  report: ReportProblems = () => {},
  rules?: ConstructorParameters<typeof Tracker>[0],
): TrackedFamily {
  const tracker = new Tracker(rules)
  const part = tracker.of(family)
  part.reportTo(report)
  return Object.assign(part, {
    apply: (event: ObjectEvent) => tracker.apply(event).families.includes(family),
  })
}
