// The default mode of kube-proxy changes: a configuration without a mode does not mean the same in every release.
import type { Config } from '../config/index.js'
import type { Mode, ModeKernel } from '../engine/index.js'
import { KernelError, orRefusal } from '../errors.js'
import { nodeReference, type EventRecorder } from '../event.js'
import type { Log } from '../log.js'
import { modeKinds } from './modes.js'

const change = 'the default becomes nftables with kube-proxy 1.40'
const remedy = 'set mode, or defaultMode in ViaductConfiguration'

/** Reports a mode that nothing sets, once at the start: a warning, and the Event of kube-proxy 1.37. */
export function reportDefaultMode(
  { mode, isModeUnset }: Pick<Config, 'mode' | 'isModeUnset'>,
  { node, log, events }: { readonly node: string; readonly log: Log; readonly events: EventRecorder },
): void {
  if (!isModeUnset) return
  const note = `mode is unset and means ${mode}; ${change}: ${remedy}`
  log.warn(note)
  events.record({
    type: 'Warning',
    reason: 'KubeProxyDefaultMode',
    action: 'StartKubeProxy',
    regarding: nodeReference(node),
    note,
  })
}

/**
 * Warns if nothing sets the mode, and the node has VIPs of another mode than the one that runs: an earlier version, or an earlier
 * configuration, meant that mode. NB: before the mode in force removes them. What cannot be read has no warning.
 */
export async function reportFormerMode(
  mode: Pick<Mode, 'name'>,
  {
    config,
    kernel,
    log,
  }: { readonly config: Pick<Config, 'isModeUnset'>; readonly kernel: ModeKernel; readonly log: Log },
): Promise<void> {
  if (!config.isModeUnset) return
  for (const { name, countVips } of modeKinds) {
    if (name === mode.name || countVips === undefined) continue
    const count = await orRefusal(async () => await countVips(kernel))
    if (count instanceof KernelError || count === 0) continue
    log.warn(
      `Mode changes from ${name} to ${mode.name}, because mode is unset: ${count} VIPs of ${name} mode are on this node. They go when ` +
        `${mode.name} mode is in force, and open connections to them end. To keep ${name} mode, set mode: ${name}`,
    )
  }
}
