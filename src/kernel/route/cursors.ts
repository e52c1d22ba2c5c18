// Cursors over packed routes and addresses. Links, policy routing rules and events become objects.
import { familyOf, type IpAddress, type IpFamily } from '../../address.js'
import { errnoName } from '../../errors.js'
import {
  type Link,
  type LinkEvent,
  type PolicyRule,
  ruleActions,
  type InterfaceAddress,
  type LocalRoute,
  type RouteChoice,
  type RouteQuestion,
} from './routes.js'
import { familyFromByte, RecordTable } from '../records.js'
import { dumpedShapes, routeTypeLocal } from './encode.js'
import {
  addressLayout,
  eventKindNumber,
  eventLayout,
  linkLayout,
  opNumber,
  routeChoiceLayout,
  routeLayout,
  ruleActionNumber,
  ruleLayout,
} from './layout.js'

/** IFF_UP of linux/if.h */
const linkIsUp = 1

function isUnspecified(address: IpAddress): boolean {
  return address === '0.0.0.0' || address === '::'
}

/** Host routes of Routes.dumpLocalRoutes(), by index. */
export class RouteCursor extends RecordTable {
  constructor(bytes: Uint8Array) {
    super(bytes, routeLayout)
  }

  family(index: number): IpFamily {
    return familyFromByte(this.u8(index, routeLayout.family))
  }

  address(index: number): IpAddress {
    return this.ip(index, routeLayout.destination, this.family(index))
  }

  /** undefined: none. */
  preferredSource(index: number): IpAddress | undefined {
    const source = this.ip(index, routeLayout.preferredSource, this.family(index))
    return isUnspecified(source) ? undefined : source
  }

  interfaceIndex(index: number): number {
    return this.u32(index, routeLayout.interfaceIndex)
  }

  protocol(index: number): number {
    return this.u8(index, routeLayout.protocol)
  }

  /** Whether scope, metric and TOS are those of the routes that Viaduct adds with this metric; undefined: the kernel's default. */
  hasUsualShape(index: number, metric?: number): boolean {
    const { scope, metric: usualMetric } = dumpedShapes[this.family(index)]
    return (
      this.u8(index, routeLayout.scope) === scope &&
      this.u32(index, routeLayout.metric) === (metric ?? usualMetric) &&
      this.u8(index, routeLayout.tos) === 0
    )
  }

  /** As an object. */
  route(index: number): LocalRoute {
    const preferredSource = this.preferredSource(index)
    const metric = this.u32(index, routeLayout.metric)
    return {
      address: this.address(index),
      interfaceIndex: this.interfaceIndex(index),
      ...(preferredSource === undefined ? {} : { preferredSource }),
      protocol: this.protocol(index),
      ...(metric === 0 || metric === dumpedShapes[this.family(index)].metric ? {} : { metric }),
    }
  }
}

class ChoiceCursor extends RecordTable {
  constructor(bytes: Uint8Array) {
    super(bytes, routeChoiceLayout)
  }

  choice(index: number, family: IpFamily): RouteChoice {
    const errno = this.u32(index, routeChoiceLayout.error)
    if (errno !== 0) return { isRouted: false, errno: errnoName(errno) }
    const source = this.ip(index, routeChoiceLayout.preferredSource, family)
    return {
      isRouted: true,
      isLocal: this.u8(index, routeChoiceLayout.type) === routeTypeLocal,
      interfaceIndex: this.u32(index, routeChoiceLayout.interfaceIndex),
      ...(isUnspecified(source) ? {} : { preferredSource: source }),
    }
  }
}

/** The answers to the questions, as objects. */
export function decodeChoices(
  bytes: Uint8Array,
  questions: readonly RouteQuestion[],
): readonly RouteChoice[] {
  const cursor = new ChoiceCursor(bytes)
  return questions.map(({ destination }, index) => cursor.choice(index, familyOf(destination)))
}

/** Addresses of Routes.dumpAddresses(), by index. */
export class AddressCursor extends RecordTable {
  constructor(bytes: Uint8Array) {
    super(bytes, addressLayout)
  }

  family(index: number): IpFamily {
    return familyFromByte(this.u8(index, addressLayout.family))
  }

  address(index: number): IpAddress {
    return this.ip(index, addressLayout.address, this.family(index))
  }

  prefixLength(index: number): number {
    return this.u8(index, addressLayout.prefixLength)
  }

  interfaceIndex(index: number): number {
    return this.u32(index, addressLayout.interfaceIndex)
  }

  /** As an object. */
  interfaceAddress(index: number): InterfaceAddress {
    return {
      address: this.address(index),
      prefixLength: this.prefixLength(index),
      interfaceIndex: this.interfaceIndex(index),
    }
  }
}

class LinkCursor extends RecordTable {
  constructor(bytes: Uint8Array) {
    super(bytes, linkLayout)
  }

  link(index: number): Link {
    return {
      name: this.text(index, linkLayout.name),
      index: this.u32(index, linkLayout.index),
      kind: this.text(index, linkLayout.kind),
      isUp: (this.u32(index, linkLayout.flags) & linkIsUp) !== 0,
    }
  }
}

/** As objects: a node has few links. */
export function decodeLinks(bytes: Uint8Array): readonly Link[] {
  const cursor = new LinkCursor(bytes)
  return Array.from({ length: cursor.length }, (_, index) => cursor.link(index))
}

class RuleCursor extends RecordTable {
  constructor(bytes: Uint8Array) {
    super(bytes, ruleLayout)
  }

  rule(index: number): PolicyRule {
    const action = this.u8(index, ruleLayout.action)
    const name = ruleActions.find((each) => ruleActionNumber[each] === action)
    return {
      family: familyFromByte(this.u8(index, ruleLayout.family)),
      priority: this.u32(index, ruleLayout.priority),
      mark: this.u32(index, ruleLayout.mark),
      markMask: this.u32(index, ruleLayout.markMask),
      isInverted: this.u8(index, ruleLayout.isInverted) === 1,
      action: name ?? 'other',
      table: this.u32(index, ruleLayout.table),
    }
  }
}

/** As objects: a node has few rules. */
export function decodeRules(bytes: Uint8Array): readonly PolicyRule[] {
  const cursor = new RuleCursor(bytes)
  return Array.from({ length: cursor.length }, (_, index) => cursor.rule(index))
}

class EventCursor extends RecordTable {
  constructor(bytes: Uint8Array) {
    super(bytes, eventLayout)
  }

  event(index: number): LinkEvent {
    const kind = this.u8(index, eventLayout.kind)
    const change = this.u8(index, eventLayout.op) === opNumber.remove ? 'remove' : 'add'
    const interfaceIndex = this.u32(index, eventLayout.interfaceIndex)
    if (kind === eventKindNumber.link)
      return { kind: 'link', change, name: this.text(index, eventLayout.name), index: interfaceIndex }
    if (kind !== eventKindNumber.address) return { kind: 'overrun' }
    const family = familyFromByte(this.u8(index, eventLayout.family))
    const address = this.ip(index, eventLayout.address, family)
    return { kind: 'address', change, index: interfaceIndex, family, address }
  }
}

export function decodeEvents(bytes: Uint8Array): readonly LinkEvent[] {
  const cursor = new EventCursor(bytes)
  return Array.from({ length: cursor.length }, (_, index) => cursor.event(index))
}
