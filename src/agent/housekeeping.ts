import type { CleanUpOptions, Mode } from '../engine/index.js'
import type { Config } from '../config/index.js'
import {
  NftConflicts,
  openConflicts,
  OtherFlavour,
  reportReturnedDevice,
  reportSavedTables,
  type SavedFiles,
  takeBackLocalnet,
} from '../host/index.js'
import type { Kernel } from '../kernel/index.js'
import { type Log, StateReporter } from '../log.js'
import { type NodeFacts, servesLocalhostByConfig, servesLocalhostNodePorts } from '../node/index.js'
import { leavingOthers } from './modes.js'

/** Whether the mode needs route_localnet, by the configuration alone. */
export function routesLocalnet(
  name: Mode['name'],
  config: Pick<Config, 'nodePortAddresses' | 'iptables' | 'featureGates'>,
): boolean {
  return name === 'iptables' && servesLocalhostByConfig(config)
}

/** Whether the mode needs route_localnet, by the configuration or by the facts of the Node so far. */
function needsLocalnet(
  name: Mode['name'],
  { config, node }: Pick<HousekeepingOptions, 'config' | 'node'>,
): boolean {
  return (
    routesLocalnet(name, config) ||
    (name === 'iptables' && servesLocalhostNodePorts({ family: 'ipv4', config, node: node.facts }))
  )
}

interface HousekeepingOptions {
  readonly kernel: CleanUpOptions['kernel'] & Pick<Kernel, 'firewall'>
  readonly config: Pick<Config, 'nodePortAddresses' | 'iptables' | 'featureGates' | 'ipvs'>
  readonly log: Log
  /** This node, as it is now. */
  readonly node: { readonly facts: NodeFacts }
  /** Where nftables.service has its rules. */
  readonly savedFiles: SavedFiles
}

/**
 * Returns the work that the agent does on the node besides Services: it removes the leftovers of other modes, until nothing is left,
 * and looks for conflicts with rules of other programs.
 */
export function openHousekeeping(
  mode: Pick<Mode, 'name' | 'flavour' | 'families'>,
  options: HousekeepingOptions,
): () => Promise<void> {
  const { config, kernel } = options
  const { name, flavour: inUse, families } = mode
  const leave = leavingOthers(mode, { ...options, excludeCidrs: config.ipvs.excludeCIDRs })
  const takeBack = takingBackLocalnet(options)
  const conflicts = openConflicts(options.log)
  const other = inUse === undefined ? undefined : new OtherFlavour({ ...options, inUse, families, conflicts })
  const tables = name === 'ipvs' ? (['mangle', 'filter', 'nat'] as const) : (['filter', 'nat'] as const)
  const nft = new NftConflicts({
    ...options,
    inUse,
    hasOwnTable: name === 'iptables',
    tables,
    families,
    conflicts,
  })
  let isClean = false
  return async () => {
    // An object that is there right after the removal has not come back.
    const wasClean = isClean
    isClean ||= await leave()
    if (!needsLocalnet(name, options)) await takeBack()
    await other?.look({ isClean: wasClean })
    await nft.look()
    await reportSavedTables(conflicts, options.savedFiles)
    if (wasClean && name !== 'ipvs') await reportReturnedDevice(kernel.links, conflicts)
  }
}

/** An agent with CAP_NET_ADMIN alone may not write the setting. `--init-only` in its present mode may. */
function takingBackLocalnet(options: Pick<HousekeepingOptions, 'kernel' | 'log'>): () => Promise<void> {
  const reporter = new StateReporter({
    log: options.log,
    level: 'warn',
    problemLine: 'Kernel setting cannot be taken back',
    recovery: 'Kernel setting is taken back',
  })
  return async () => {
    const refusal = await takeBackLocalnet(options)
    const text = `net/ipv4/conf/all/route_localnet should be 0, because no node port is on 127.0.0.0/8: ${refusal?.message}`
    reporter.report('', refusal && { text })
  }
}
