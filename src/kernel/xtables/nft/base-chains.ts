// The base chains of the tables, with the hooks and priorities of iptables-nft.
import type { NfHook, NfHookName } from '../../nftables/nftables.js'
import type { XtHook, XtTableName } from '../xtables.js'

const hookNames: Readonly<Record<XtHook, NfHookName>> = {
  PREROUTING: 'prerouting',
  INPUT: 'input',
  FORWARD: 'forward',
  OUTPUT: 'output',
  POSTROUTING: 'postrouting',
}

const priorities: Readonly<Record<Exclude<XtTableName, 'nat'>, number>> = {
  filter: 0,
  mangle: -150,
  raw: -300,
}
const destinationNat = -100
const sourceNat = 100

/** The hook of a base chain. */
export function baseChain(table: XtTableName, chain: XtHook): NfHook {
  const hook = hookNames[chain]
  if (table !== 'nat') {
    const type = table === 'mangle' && chain === 'OUTPUT' ? 'route' : 'filter'
    return { type, hook, priority: priorities[table] }
  }
  const isDestination = chain === 'PREROUTING' || chain === 'OUTPUT'
  return { type: 'nat', hook, priority: isDestination ? destinationNat : sourceNat }
}
