// Finds the service port that a kernel object belongs to.
import type { PipelineView } from '../engine/index.js'
import type { KernelOperation } from '../inspect/index.js'
import type { NodeFacts } from '../node/index.js'
import { addressesOf, route } from '../routing/index.js'

/** The pipelines of an agent, and the facts of its node. */
export interface Desired {
  readonly views: readonly PipelineView[]
  readonly facts: NodeFacts
}

/**
 * Returns the function that finds the owner of an object: `namespace/name:port/protocol`. It finds none for objects that no service port
 * desires, and for those that all share. Compiles every service port once.
 */
export function ownersOf({ views, facts }: Desired): (operation: KernelOperation) => string | undefined {
  const owners = new Map<string, string>()
  const note = (key: string, owner: string): void => {
    if (!owners.has(key)) owners.set(key, owner)
  }
  for (const view of views) {
    for (const port of view.services.servicePorts()) {
      const { key } = port
      for (const line of view.describe(route(port, view.services.endpoints(port), facts)))
        for (const name of namesIn(line)) note(name, key)
      for (const vip of addressesOf(port)) note(`vip ${vip}`, key)
    }
  }
  return ({ text }) => {
    const name = namesIn(text).find((each) => owners.has(each))
    return name === undefined ? undefined : owners.get(name)
  }
}

/** Each pattern finds the name of an object, in a description of a route and in an operation. */
const patterns: readonly (readonly [kind: string, pattern: RegExp])[] = [
  // nft: an element without its data.
  ['element', /^(?:add|create|delete) element (?<name>.* \{ .*?)(?: : .*)? \}$/u],
  // iptables-save: a rule in any chain, then the chain.
  ['rule', /^-(?:[AD] \S+|I \S+ \d+) (?<name>.*-[jg] .*)$/u],
  ['chain', /^-(?:[ADFX]|I) (?<name>KUBE-\S+)/u],
  ['chain', /^:(?<name>KUBE-\S+) /u],
  ['server', /^-[AEDaed] (?<name>(?:-[tuf]|--sctp-service) \S+)/u],
  // nft: a chain of one service port with its rules, and its set of clients.
  [
    'own',
    /^(?:add|delete|flush) (?:chain|rule|set|element) \S+ kube-proxy (?:own|clients)-(?<name>[A-Z2-7]{26})\b/u,
  ],
  ['entry', /^(?:add|del) (?!(?:table|chain|rule|set|map|element|counter) )(?<name>\S+ \S+)/u],
  ['vip', /^route \S+ local (?<name>\S+)/u],
]

function namesIn(line: string): readonly string[] {
  return patterns.flatMap(([kind, pattern]) => {
    const name = pattern.exec(line)?.groups?.['name']
    return name === undefined ? [] : [`${kind} ${name}`]
  })
}
