import { type IpFamily, parseIpAddress } from '../../address.js'
import type { FamilyMode, Mode, ModeOptions, OpenModeOptions } from '../../engine/index.js'
import { findFamilies, firstFreePort } from '../../host/index.js'
import {
  compileRoute,
  type DesiredRoute,
  SharedRelay,
  RelayConditionWatch,
} from '../../layers/relay/index.js'
import { openFamily, openWarnings } from '../../layers/shared/index.js'
import { ForeignAddresses, openVipHints, userspaceRouteMetric as metric } from '../../layers/vips/index.js'
import { BugError, isNotFound } from '../../errors.js'
import { type Routes, viaductRouteProtocol } from '../../kernel/index.js'
import { UserspaceLayer, type UserspaceLayerOptions } from './layer.js'
import { type UserspaceSettings, userspaceSettings } from './node-settings.js'
import { userspaceView } from './view.js'

/** Throws KernelError if the process may not change routes. Settings of connection tracking are not needed: their failure is a warning. */
export async function openUserspaceMode(options: OpenModeOptions): Promise<Mode> {
  const { kernel, log, conntrack, problems } = options
  await conntrack.catch((error: unknown) => {
    log.warn('Connection tracking is not set up: userspace mode does not need it', { err: error })
  })
  const families = await findFamilies({
    sysctl: kernel.sysctl,
    log,
    find: async (family) => await probeRoutes(kernel.routes, family),
    isLack: ({ code }) => code === 'EOPNOTSUPP',
  })
  const firstPort = await firstFreePort(kernel)
  if (firstPort !== undefined) {
    const text = `userspace mode lacks CAP_NET_BIND_SERVICE: Services are not served on ports below ${firstPort}; give the container that capability`
    problems.report('right to bind ports', { text })
  }
  return userspaceMode(options, families, firstPort)
}

/**
 * The mode on a kernel that is ready. The periods are those of iptables mode, as in kube-proxy before 1.26. `firstPort`: as `firstFreePort`
 * finds it.
 */
export function userspaceMode(options: ModeOptions, families: readonly IpFamily[], firstPort?: number): Mode {
  const { config, kernel, log } = options
  const warnings = openWarnings(options)
  const hints = openVipHints(log)
  const { syncPeriodMs, minSyncPeriodMs } = config.iptables
  const relay = new SharedRelay(kernel.relay, config)
  return {
    name: 'userspace',
    families,
    openPipeline: (family, agent) =>
      openFamily(options, family, agent, {
        openMode: (context) => familyMode({ ...kernel, ...context, relay, hints, firstFreePort: firstPort }),
        syncPeriodMs,
        warnings,
        translates: false,
        needsMachine: true,
      }),
    openWatch: () => new RelayConditionWatch(kernel.relay, log),
    countRelay: async () => await relay.counters(),
    syncPeriodMs,
    minSyncPeriodMs,
    restFactor: 0,
  }
}

function familyMode(context: UserspaceLayerOptions): FamilyMode<UserspaceSettings, DesiredRoute> {
  const admission = new ForeignAddresses(context)
  const layer = new UserspaceLayer(context)
  return {
    settings: (facts) => userspaceSettings(context, facts),
    routeSettings: ({ near: _near, localDetector: _localDetector, ...ofRoutes }) => ofRoutes,
    compile: compileRoute,
    layer,
    view: userspaceView(context, layer, admission),
    admission,
  }
}

/** Addresses for documentation (RFC 5737, RFC 3849), which no Service has. */
const probeAddresses = { ipv4: '198.51.100.0', ipv6: '2001:db8::' } as const

/** Checks that this process may change routes, by the removal of a route that does not exist. Throws KernelError. */
async function probeRoutes(routes: Routes, family: IpFamily): Promise<void> {
  const address = parseIpAddress(probeAddresses[family])
  if (address === undefined) throw new BugError('the probe address does not parse')
  const route = { address, interfaceIndex: 1, protocol: viaductRouteProtocol, metric }
  const { failures } = await routes.apply([{ op: 'remove-route', route }])
  for (const { error } of failures) if (!isNotFound(error)) throw error
}
