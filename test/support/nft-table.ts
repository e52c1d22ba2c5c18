// The table of nftables mode for some routes: kube-proxy's default settings, and the transaction that makes the whole table.
import type { IpFamily } from '../../src/address.js'
import { NfElements, type NfOp, type NfTransaction, packFields } from '../../src/kernel/index.js'
import { type NftModeSettings } from '../../src/layers/nft-table/index.js'
import {
  compileRoute,
  compileStructure,
  type DesiredElement,
  type DesiredFrontend,
  type DesiredRoute,
  elementsOf,
  type OwnList,
  OwnPorts,
  Packer,
  schemaOf,
  type Structure,
  type StructureUse,
} from '../../src/layers/nft-table/testing.js'
import type { Route } from '../../src/routing/index.js'

export function makeNftSettings(
  family: IpFamily = 'ipv4',
  rest: Partial<NftModeSettings> = {},
): NftModeSettings {
  return {
    family,
    semantics: 'nftables',
    masqueradeMark: 0x4000,
    masqueradeAll: false,
    localDetector: undefined,
    nodePortAddresses: 'all',
    localhostNodePorts: false,
    nodeIP: undefined,
    nodeName: 'node-a',
    ...rest,
  }
}

/** The values in use by the routes. */
export function useOf(routes: readonly DesiredRoute[]): StructureUse {
  const frontends = routes.flatMap((route) => route.frontends)
  const ofKind = (kind: string): readonly DesiredFrontend[] =>
    frontends.filter(({ frontend }) => frontend.kind === kind)
  const ranges = frontends.flatMap(({ allowedSources = [] }) => allowedSources)
  return {
    services: frontendUse(ofKind('address')),
    nodePorts: frontendUse(ofKind('node-port')),
    prefixLengths: new Set(ranges.map(({ prefixLength }) => prefixLength)),
  }
}

function frontendUse(frontends: readonly DesiredFrontend[]): StructureUse['services'] {
  return {
    counts: positive(frontends.map(({ backends, chain }) => (chain === '' ? backends.length : 0))),
    shortCircuitCounts: positive(
      frontends.map(({ shortCircuit, shortCircuitChain }) =>
        shortCircuitChain === '' ? shortCircuit.length : 0,
      ),
    ),
    ownLists: new Set<OwnList>([
      ...(frontends.some(({ chain }) => chain !== '') ? (['endpoints'] as const) : []),
      ...(frontends.some(({ shortCircuitChain }) => shortCircuitChain !== '')
        ? (['shortCircuit'] as const)
        : []),
    ]),
  }
}

function positive(numbers: readonly number[]): ReadonlySet<number> {
  return new Set(numbers.filter((number) => number > 0))
}

/** Makes sets, chains and rules. */
export function structureOps({ table, sets, chains }: Structure): NfTransaction {
  return [
    { op: 'add-table', table },
    ...sets.map((set): NfOp => ({ op: 'add-set', set })),
    ...chains.map(({ chain }): NfOp => ({ op: 'add-chain', chain })),
    ...chains.flatMap(({ rules }) => rules.map((rule): NfOp => ({ op: 'add-rule', rule }))),
  ]
}

export function elementOp({ set, key, data, chain }: DesiredElement): NfOp {
  if (chain !== undefined) {
    const verdict = { code: 'goto', chain } as const
    return { op: 'add-elements', elements: new NfElements(set).add(packFields(set.key, key), { verdict }) }
  }
  const fields = typeof set.data === 'object' ? set.data : []
  const value = data === undefined ? {} : { data: packFields(fields, data) }
  return { op: 'add-elements', elements: new NfElements(set).add(packFields(set.key, key), value) }
}

/** The whole table with the elements of the routes and of the node's addresses. */
export function tableOps(settings: NftModeSettings, routes: readonly Route[]): NfTransaction {
  const desired = routes.map((route) => compileRoute(route, settings))
  const { nodePortAddresses, family } = settings
  const elements = [
    ...(nodePortAddresses === 'all' ? [] : nodePortAddresses).map((address) => ({
      set: schemaOf(family).nodePortIPs,
      key: [address],
    })),
    ...desired.flatMap((route) => [...elementsOf(route, family)]),
  ]
  return [
    ...structureOps(compileStructure(settings, useOf(desired))),
    ...ownOps(desired, family),
    ...elements.map(elementOp),
  ]
}

/** The own chains of the routes. Slots begin with 1. */
function ownOps(desired: readonly DesiredRoute[], family: IpFamily): NfTransaction {
  const own = new OwnPorts({
    family,
    schema: schemaOf(family),
    packer: new Packer(family),
    clock: { unixMs: () => 1000 },
  })
  for (const each of desired) if (each.own !== undefined) own.claim(each.own.name, each.own)
  return [...own.entries.values()].flatMap((entry) => own.ops(entry, own.targetOf(entry)))
}
