import { conntrackFlags } from './conntrack-flags.js'
import type { Flag } from './flag.js'
import { inertFlags, inertLoggingFlags, leakedFlags } from './inert-flags.js'
import { iptablesFlags } from './iptables-flags.js'
import { ipvsFlags } from './ipvs-flags.js'
import { clientFlags, serverFlags } from './server-flags.js'
import { parseBoolean, parseBooleans, parseInteger, parseNumber } from './values.js'

/** Every flag of this build: kube-proxy's names and meanings where kube-proxy has the flag. */
export const flags: readonly Flag[] = [
  {
    name: 'config',
    value: 'FILE',
    field: 'configFile',
    help: "kube-proxy's configuration file, YAML or JSON; it stands for all flags that it has a field for",
    isBesideConfig: true,
    take: (input, text) => ({ ...input, configFile: text }),
  },
  {
    name: 'strict-config',
    value: undefined,
    field: 'strictConfig',
    help: 'refuse a configuration file with fields that are unknown or written twice, instead of warning',
    isBesideConfig: true,
    take: (input, text) => ({ ...input, strictConfig: parseBoolean('strictConfig', text) }),
  },
  {
    name: 'write-config-to',
    value: 'FILE',
    field: 'writeConfigTo',
    help: 'write the configuration with its defaults as such a file, and exit',
    isBesideConfig: true,
    take: (input, text) => ({ ...input, writeConfigTo: text }),
  },
  {
    name: 'manifests',
    value: 'DIR',
    field: 'manifests',
    help: 'folder with Services, EndpointSlices and Nodes as YAML or JSON, instead of an API server; its changes are followed',
    isBesideConfig: true,
    take: (input, text) => ({ ...input, manifests: text }),
  },
  {
    name: 'proxy-mode',
    value: 'MODE',
    field: 'mode',
    help: 'how services are programmed: iptables, ipvs or nftables (blank: iptables)',
    take: (input, text) => ({ ...input, mode: text }),
  },
  {
    name: 'mode-fallback',
    value: undefined,
    field: 'modeFallback',
    help: 'run another mode where this kernel cannot run --proxy-mode, instead of exiting (default true)',
    isBesideConfig: true,
    take: (input, text) => ({ ...input, modeFallback: parseBoolean('modeFallback', text) }),
  },
  {
    name: 'hostname-override',
    value: 'NAME',
    field: 'hostnameOverride',
    help: "name of this node, instead of the machine's host name",
    isBesideConfig: true,
    take: (input, text) => (text === '' ? input : { ...input, hostnameOverride: text }),
  },
  {
    name: 'bind-address',
    value: 'IP',
    field: 'bindAddress',
    help: "this node's own IP, instead of the Node object's; nothing listens there (default 0.0.0.0: unset)",
    take: (input, text) => ({ ...input, bindAddress: text }),
  },
  ...iptablesFlags,
  ...ipvsFlags,
  {
    name: 'vip-binding',
    value: 'HOW',
    field: 'vipBinding',
    help: 'how VIPs become local: routes or addresses (default routes)',
    isBesideConfig: true,
    take: (input, text) => ({ ...input, vipBinding: text }),
  },
  ...conntrackFlags,
  ...serverFlags,
  ...clientFlags,
  {
    name: 'oom-score-adj',
    value: 'NUMBER',
    field: 'oomScoreAdj',
    help: 'how willingly the kernel ends the agent when memory is short: -1000 (never) to 1000 (default -999)',
    take: (input, text) => ({ ...input, oomScoreAdj: parseInteger('oomScoreAdj', text) }),
  },
  ...inertFlags,
  ...leakedFlags,
  {
    name: 'feature-gates',
    isAdded: true,
    value: 'GATES',
    field: 'featureGates',
    help: 'NAME=true,OTHER=false; AllowServiceExternalIPs (default true): serve external IPs; may be repeated',
    take: (input, text) => ({
      ...input,
      featureGates: { ...input.featureGates, ...parseBooleans('featureGates', text) },
    }),
  },
  {
    name: 'init-only',
    value: undefined,
    field: 'initOnly',
    help: 'set what needs more than CAP_NET_ADMIN, and exit',
    isBesideConfig: true,
    take: (input, text) => ({ ...input, initOnly: parseBoolean('initOnly', text) }),
  },
  {
    name: 'cleanup',
    value: undefined,
    field: 'cleanup',
    help: 'remove everything that was programmed, and exit',
    isBesideConfig: true,
    take: (input, text) => ({ ...input, cleanup: parseBoolean('cleanup', text) }),
  },
  {
    name: 'v',
    value: 'LEVEL',
    field: 'logging.verbosity',
    help: 'how much is logged: 0 and 1 little, 2 and 3 syncs, 4 and more every object (default 0)',
    isBesideConfig: true,
    take: (input, text) => ({ ...input, verbosity: parseNumber('logging.verbosity', text) }),
  },
  {
    name: 'logging-format',
    value: 'FORMAT',
    field: 'logging.format',
    help: 'json or text (default json)',
    isBesideConfig: true,
    take: (input, text) => ({ ...input, loggingFormat: text }),
  },
  ...inertLoggingFlags,
]
