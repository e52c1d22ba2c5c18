// The table of settings, first part: what the agent does, its node, its API server, its log and its servers.
import { defaultControlSocket } from '../control-socket.js'
import { ConfigError } from '../errors.js'
import { oneOf, portNumber, formatListenAddress, listenAddress } from './checks.js'
import { resolveFeatureGates, writtenFeatureGates } from './feature-gates.js'
import { nodeAddress } from './local-traffic.js'
import { flagSetting, inert, inputOnly, setting, viaductSetting } from './setting.js'
import * as t from './value-types.js'

export type VipBinding = 'routes' | 'addresses'
/** The setting of the flavour of x_tables; `auto`: the flavour that the node uses. */
export type IptablesFlavour = 'auto' | 'nft' | 'legacy'
/** When the metrics server has the status page; `auto`: only if it listens on loopback. */
type StatusPage = 'auto' | 'always' | 'never'
type LoggingFormat = 'json' | 'text'

/** A path; blank: none. */
const path = {
  resolve: (written: string): string | undefined => (written === '' ? undefined : written),
  show: (value: string | undefined): string | undefined => value,
}

/** Validates a level of the log: a whole number that is not negative. */
function verbosity(level: number, field: string): number {
  if (Number.isSafeInteger(level) && level >= 0) return level
  throw new ConfigError(field, `must be a whole number from 0, not ${level}`)
}

function hostname(text: string, field: string): string | undefined {
  const name = text.trim().toLowerCase()
  if (text === '' || name !== '') return name === '' ? undefined : name
  throw new ConfigError(field, 'empty hostname-override is invalid')
}

// The settings are those of kube-proxy 1.37. Only metrics that the previous minor version deprecated can be shown again: "Show hidden
// metrics" in kubernetes.io/docs/concepts/cluster-administration/system-metrics. A file of kube-proxy 1.36 has the version before.
const [previousMinor, ...earlierMinors] = ['1.36', '1.35'] as const

/** The sentence is kube-proxy's. */
function metricsVersion(version: string, field: string): string {
  if (['', previousMinor, ...earlierMinors].includes(version)) return version
  const problem = `must be omitted or have the value '${previousMinor}': only the previous minor version is allowed`
  throw new ConfigError(field, problem)
}

function burst(events: number, field: string): number {
  if (events >= 0) return events
  throw new ConfigError(field, 'must be non-negative')
}

const task = [
  inputOnly(
    flagSetting('configFile', t.text, '', {
      flag: 'config',
      metavar: 'FILE',
      help: 'configuration file of kube-proxy, YAML or JSON; it replaces all flags that it has a field for',
    }),
  ),
  inputOnly(
    flagSetting('strictConfig', t.boolean, false, {
      flag: 'strict-config',
      help: 'refuse a configuration file with unknown or repeated fields, instead of warning',
    }),
  ),
  flagSetting('writeConfigTo', t.text, '', {
    flag: 'write-config-to',
    metavar: 'FILE',
    help: 'write the configuration, with defaults, as such a file, and exit',
    ...path,
  }),
  // F-103.
  flagSetting('initOnly', t.boolean, false, {
    flag: 'init-only',
    help: 'set what needs more than CAP_NET_ADMIN, and exit',
  }),
  flagSetting('cleanup', t.boolean, false, {
    flag: 'cleanup',
    help: 'remove everything that Viaduct programmed, and exit',
  }),
  viaductSetting('manifests', t.text, '', {
    flag: 'manifests',
    metavar: 'DIR',
    help: 'folder with Services, EndpointSlices, Nodes and ServiceCIDRs as YAML or JSON, instead of an API server; Viaduct follows changes',
    ...path,
  }),
] as const

const modeFallback = viaductSetting('modeFallback', t.boolean, true, {
  flag: 'mode-fallback',
  help: 'run another mode if this kernel cannot run --proxy-mode; false: exit',
})

const vipBinding = viaductSetting('vipBinding', t.text, 'routes', {
  flag: 'vip-binding',
  metavar: 'HOW',
  help: 'how VIPs become local: routes or addresses',
  resolve: oneOf<VipBinding>('routes', 'addresses'),
})

const iptablesFlavour = viaductSetting('iptablesFlavour', t.text, 'auto', {
  flag: 'iptables-flavour',
  metavar: 'FLAVOUR',
  help: 'tables for the rules of iptables and ipvs mode: nft (those of iptables-nft), legacy, or auto (those that this node uses)',
  resolve: oneOf<IptablesFlavour>('auto', 'nft', 'legacy'),
})

const nodePortHolding = viaductSetting('nodePortHolding', t.boolean, false, {
  flag: 'hold-node-ports',
  help: 'bind each node port, and the ports of external IPs that this machine has, so that no other program gets them',
})

const client = [
  setting('client.clientConnection.kubeconfig', t.text, '', {
    field: 'clientConnection.kubeconfig',
    flag: 'kubeconfig',
    metavar: 'FILE',
    help: 'how to reach the Kubernetes API, and with which credentials',
  }),
  // Media types for the header Accept; blank: `contentType`.
  setting('client.clientConnection.acceptContentTypes', t.text, '', {
    field: 'clientConnection.acceptContentTypes',
  }),
  setting('client.clientConnection.contentType', t.text, 'application/vnd.kubernetes.protobuf', {
    field: 'clientConnection.contentType',
    flag: 'kube-api-content-type',
    metavar: 'TYPE',
    help: 'format of API objects; application/json: only JSON, else protobuf and then JSON',
    isZeroDefault: 'everywhere',
  }),
  setting('client.clientConnection.qps', t.decimalNumber, 5, {
    field: 'clientConnection.qps',
    flag: 'kube-api-qps',
    help: 'Events per second on average; negative: no limit',
    isZeroDefault: 'everywhere',
  }),
  setting('client.clientConnection.burst', t.signedNumber, 10, {
    field: 'clientConnection.burst',
    flag: 'kube-api-burst',
    help: 'Events at once',
    isZeroDefault: 'everywhere',
    resolve: burst,
  }),
  // Blank: the server of the kubeconfig, or of the cluster that this pod runs in.
  flagSetting('client.master', t.text, '', {
    field: 'master',
    flag: 'master',
    metavar: 'URL',
    help: 'address of the Kubernetes API, instead of that of the kubeconfig (blank without kubeconfig: the cluster of this pod)',
  }),
] as const

const logging = [
  setting('loggingFormat', t.text, 'json', {
    field: 'logging.format',
    flag: 'logging-format',
    metavar: 'FORMAT',
    help: 'json or text',
    isBesideConfig: true,
    isZeroDefault: 'in files',
    resolve: oneOf<LoggingFormat>('json', 'text'),
  }),
  inert(
    setting('logging.flushFrequency', t.durationOrNanoseconds, '5s', {
      flag: 'log-flush-frequency',
      help: 'no effect: Viaduct writes each line at once',
      isBesideConfig: true,
      isZeroDefault: 'in files',
    }),
  ),
  setting('verbosity', t.wholeNumber, 0, {
    field: 'logging.verbosity',
    flag: 'v',
    metavar: 'LEVEL',
    help: 'verbosity of the log: 2 adds syncs, 4 every object',
    isBesideConfig: true,
    resolve: verbosity,
  }),
  inert(
    setting('logging.vmodule', t.verbosities, '', {
      flag: 'vmodule',
      help: 'no effect: PATTERN=LEVEL,OTHER=LEVEL for source files of kube-proxy',
      isBesideConfig: true,
    }),
  ),
  inert(
    setting('logging.options.text.splitStream', t.boolean, false, {
      flag: 'log-text-split-stream',
      help: 'no effect: all lines go to standard output',
      isBesideConfig: true,
    }),
  ),
  inert(
    setting('logging.options.text.infoBufferSize', t.quantity, '0', {
      flag: 'log-text-info-buffer-size',
      help: 'no effect: Viaduct writes each line at once',
      isBesideConfig: true,
    }),
  ),
  inert(
    setting('logging.options.json.splitStream', t.boolean, false, {
      flag: 'log-json-split-stream',
      help: 'no effect: all lines go to standard output',
      isBesideConfig: true,
    }),
  ),
  inert(
    setting('logging.options.json.infoBufferSize', t.quantity, '0', {
      flag: 'log-json-info-buffer-size',
      help: 'no effect: Viaduct writes each line at once',
      isBesideConfig: true,
    }),
  ),
] as const

const bindAddress = setting('bindAddress', t.text, '0.0.0.0', {
  flag: 'bind-address',
  metavar: 'IP',
  help: "this node's own IP, instead of the Node object's; unset if 0.0.0.0 or ::; no server listens there",
  isZeroDefault: 'in files',
  resolve: nodeAddress,
  show: (address) => address ?? '0.0.0.0',
})

const controlSocket = viaductSetting('controlSocket', t.text, defaultControlSocket, {
  flag: 'control-socket',
  metavar: 'FILE',
  help: 'Unix socket for the commands of viaduct, such as viaduct status; blank: none',
  resolve: path.resolve,
  // A file must say that there is none: an absent field is the default.
  show: (file) => file ?? '',
})

const node = [
  setting('hostnameOverride', t.text, '', {
    flag: 'hostname-override',
    metavar: 'NAME',
    help: "name of this node, instead of the machine's host name",
    isBesideConfig: true,
    isZeroDefault: 'in flags',
    resolve: hostname,
    show: (name) => name ?? '',
  }),
  bindAddress,
] as const

const healthzServer = inputOnly(
  viaductSetting('servers.healthzServer', t.boolean, true, {
    field: 'healthzServer',
    show: (_, valueAt) => valueAt('servers.healthzBindAddress') !== undefined,
  }),
)
const healthzPort = inputOnly(
  flagSetting('servers.healthzPort', t.wholeNumber, 10256, {
    field: 'healthzPort',
    flag: 'healthz-port',
    metavar: 'PORT',
    help: 'port if --healthz-bind-address has none; 0: no health server',
    isBesideConfig: false,
    resolve: portNumber,
  }),
)
const metricsServer = inputOnly(
  viaductSetting('servers.metricsServer', t.boolean, true, {
    field: 'metricsServer',
    show: (_, valueAt) => valueAt('servers.metricsBindAddress') !== undefined,
  }),
)
const metricsPort = inputOnly(
  flagSetting('servers.metricsPort', t.wholeNumber, 10249, {
    field: 'metricsPort',
    flag: 'metrics-port',
    metavar: 'PORT',
    help: 'port if --metrics-bind-address has none; 0: no metrics server',
    isBesideConfig: false,
    resolve: portNumber,
  }),
)

const servers = [
  setting('servers.healthzBindAddress', t.text, '', {
    field: 'healthzBindAddress',
    flag: 'healthz-bind-address',
    metavar: 'IP[:PORT]',
    help: 'address of the health server; [::]:10256 with an IPv6 --bind-address',
    defaultText: '0.0.0.0:10256',
    resolve: (text, field, others) =>
      others.valueOf(healthzServer)
        ? listenAddress(field, text, {
            bindAddress: others.inputOf(bindAddress),
            hosts: { ipv4: '0.0.0.0', ipv6: '::' },
            port: others.valueOf(healthzPort),
          })
        : undefined,
    show: formatListenAddress,
  }),
  healthzServer,
  healthzPort,
  setting('servers.metricsBindAddress', t.text, '', {
    field: 'metricsBindAddress',
    flag: 'metrics-bind-address',
    metavar: 'IP[:PORT]',
    help: 'address of the metrics server; [::1]:10249 with an IPv6 --bind-address',
    defaultText: '127.0.0.1:10249',
    resolve: (text, field, others) =>
      others.valueOf(metricsServer)
        ? listenAddress(field, text, {
            bindAddress: others.inputOf(bindAddress),
            hosts: { ipv4: '127.0.0.1', ipv6: '::1' },
            port: others.valueOf(metricsPort),
          })
        : undefined,
    show: formatListenAddress,
  }),
  metricsServer,
  metricsPort,
  setting('servers.bindAddressHardFail', t.boolean, false, {
    field: 'bindAddressHardFail',
    flag: 'bind-address-hard-fail',
    help: 'exit if one of these servers cannot listen, instead of trying again',
  }),
  viaductSetting('servers.statusPage', t.text, 'auto', {
    field: 'statusPage',
    flag: 'status-page',
    metavar: 'WHEN',
    help: 'serve the status page /ui beside the metrics: auto (only on a loopback address), always or never',
    resolve: oneOf<StatusPage>('auto', 'always', 'never'),
  }),
  setting('servers.enableProfiling', t.boolean, false, {
    field: 'enableProfiling',
    flag: 'profiling',
    help: "serve profiles and the log's verbosity beside the metrics (/debug/)",
  }),
  inert(
    setting('showHiddenMetricsForVersion', t.text, '', {
      flag: 'show-hidden-metrics-for-version',
      metavar: 'VERSION',
      help: 'no effect: no metric is hidden',
      resolve: metricsVersion,
    }),
  ),
] as const

/** Flags of cAdvisor that kube-proxy had up to 1.36 (seen in 1.31.0 and 1.36.0; 1.37.2 refuses them). They have no field in files. */
const leaked = [
  inert(
    flagSetting('boot-id-file', t.text, '/proc/sys/kernel/random/boot_id', {
      flag: 'boot-id-file',
      metavar: 'FILES',
      help: 'no effect: it belongs to cAdvisor, which kube-proxy contained up to 1.36',
    }),
  ),
  inert(
    flagSetting('machine-id-file', t.text, '/etc/machine-id,/var/lib/dbus/machine-id', {
      flag: 'machine-id-file',
      metavar: 'FILES',
      help: 'no effect: it belongs to cAdvisor, which kube-proxy contained up to 1.36',
    }),
  ),
] as const

export const agentSettings = [
  ...task,
  modeFallback,
  iptablesFlavour,
  vipBinding,
  nodePortHolding,
  controlSocket,
  setting(
    'featureGates',
    t.switches,
    {},
    {
      flag: 'feature-gates',
      metavar: 'GATES',
      help: 'NAME=true,OTHER=false; AllowServiceExternalIPs (default true): serve external IPs; KubeProxyNFTablesLocalhostNodePorts (default false): node ports on loopback networks in nftables mode; may be repeated',
      resolve: resolveFeatureGates,
      show: writtenFeatureGates,
    },
  ),
  ...client,
  ...logging,
  ...node,
  ...servers,
  ...leaked,
] as const
