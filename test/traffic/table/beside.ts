// Others' rules beside those of the agent: a network policy's marks, an administrator's firewall.
import type { Check } from './case.js'
import { type CaseAt, type Frontend, type Slot } from './slot.js'

const here = ['a0'] as const
const everywhere = ['a0', 'b0'] as const
const there = ['b0'] as const
const local = { externalTrafficPolicy: 'Local' } as const

/** The group's firewall closes node ports. */
const openFrontends: readonly Frontend[] = ['loadBalancer', 'externalIP']

/** What pods and the node reach under policy Local. */
function fromInside(slot: Slot, by: typeof everywhere | typeof there): readonly Check[] {
  return [
    ...slot.flowsTo(openFrontends, 'a1', { by, sees: 'kept' }),
    ...slot.flowsTo(openFrontends, 'node', { by, sees: 'node' }),
  ]
}

/** On a node where every packet that comes in gets a bit of a foreign mark at INPUT, as felix does, and TCP to node ports ends. */
export const besideCases: readonly CaseAt[] = [
  (slot) => ({
    name: 'a bit that others add to marks at INPUT leaves the outside its endpoints here, and its source',
    rules: ['F-049', 'F-051'],
    objects: [slot.exposed(local), ...slot.slices(everywhere)],
    checks: [
      ...slot.flowsTo(openFrontends, 'outside', { by: here, sees: 'kept' }),
      ...fromInside(slot, everywhere),
    ],
  }),
  (slot) => ({
    name: 'a bit that others add to marks at INPUT lets the outside get no further than this node',
    rules: ['F-051', 'F-054'],
    objects: [slot.exposed(local), ...slot.slices(there)],
    checks: [...slot.flowsTo(openFrontends, 'outside', 'dropped'), ...fromInside(slot, there)],
  }),
  (slot) => ({
    name: 'node ports that a firewall closes at INPUT',
    rules: ['F-008'],
    objects: [slot.exposed(), ...slot.slices(here)],
    checks: slot.flowsTo(['nodePort', 'externalIP'], 'outside', { by: here, sees: 'node' }),
  }),
]

/** Without a detector pods look like clients outside. */
export const unknownPodsCase: CaseAt = (slot) => ({
  name: 'policy Local without an endpoint here, where pods cannot be told from the outside',
  rules: ['F-051', 'F-054'],
  objects: [slot.exposed(local), ...slot.slices(there)],
  checks: [
    ...(['a1', 'outside'] as const).flatMap((from) => slot.flowsTo(openFrontends, from, 'dropped')),
    ...slot.flowsTo(openFrontends, 'node', { by: there, sees: 'node' }),
  ],
})
