// The default mode of kube-proxy changes: a configuration without a mode does not mean the same in every release.
import type { Config } from '../config/index.js'
import { nodeReference, type EventRecorder } from '../event.js'
import type { Log } from '../log.js'

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
