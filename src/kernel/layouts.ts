// Compares the layouts of this build with those of the addon.
import { BugError } from '../errors.js'
import * as binding from './binding/layout.js'
import * as conntrack from './conntrack/layout.js'
import * as ipset from './ipset/layout.js'
import * as ipvs from './ipvs/layout.js'
import * as relay from './relay/layout.js'
import * as route from './route/layout.js'
import * as xtables from './xtables/layout.js'

/** By folder of native/ and export of layout.ts: the size and offsets of a record, or the numbers of an enum. */
export type Layouts = Readonly<Record<string, Readonly<Record<string, Readonly<Record<string, number>>>>>>

export const layouts = { binding, conntrack, ipset, ipvs, relay, route, xtables } as const satisfies Layouts

/** Throws BugError that names the first number on which the addon and this build differ. */
export function checkLayouts(native: Layouts): void {
  for (const [room, parts] of Object.entries<Layouts[string]>(layouts)) {
    for (const [part, layout] of Object.entries(parts)) {
      const theirs = native[room]?.[part] ?? {}
      for (const name of new Set([...Object.keys(layout), ...Object.keys(theirs)])) {
        if (layout[name] === theirs[name]) continue
        throw new BugError(
          `${room} ${part}.${name} is ${theirs[name] ?? 'absent'} in the addon and ${layout[name] ?? 'absent'} in this build: build both from the same source`,
        )
      }
    }
  }
}
