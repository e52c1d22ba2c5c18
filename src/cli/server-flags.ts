// Flags of the servers of health and metrics, and of the client of the Kubernetes API.
import type { ConfigInput } from '../config/index.js'
import type { Flag } from './flag.js'
import { parseBoolean, parseDecimal, parseInteger, parseNumber } from './values.js'

type ServersInput = NonNullable<ConfigInput['servers']>
type ConnectionInput = NonNullable<NonNullable<ConfigInput['client']>['clientConnection']>

export const serverFlags: readonly Flag[] = [
  {
    name: 'healthz-bind-address',
    value: 'IP[:PORT]',
    field: 'healthzBindAddress',
    help: 'where health is served (default 0.0.0.0:10256, or [::]:10256 with an IPv6 --bind-address)',
    take: (input, text) => withServers(input, { healthzBindAddress: text }),
  },
  {
    name: 'healthz-port',
    value: 'PORT',
    field: 'healthzPort',
    help: 'port of --healthz-bind-address where that has none; 0: health is not served (default 10256)',
    take: (input, text) => withServers(input, { healthzPort: parseNumber('healthzPort', text) }),
  },
  {
    name: 'metrics-bind-address',
    value: 'IP[:PORT]',
    field: 'metricsBindAddress',
    help: 'where metrics are served (default 127.0.0.1:10249, or [::1]:10249 with an IPv6 --bind-address)',
    take: (input, text) => withServers(input, { metricsBindAddress: text }),
  },
  {
    name: 'metrics-port',
    value: 'PORT',
    field: 'metricsPort',
    help: 'port of --metrics-bind-address where that has none; 0: metrics are not served (default 10249)',
    take: (input, text) => withServers(input, { metricsPort: parseNumber('metricsPort', text) }),
  },
  {
    name: 'bind-address-hard-fail',
    value: undefined,
    field: 'bindAddressHardFail',
    help: 'end where one of these servers cannot listen, instead of trying again',
    take: (input, text) =>
      withServers(input, { bindAddressHardFail: parseBoolean('bindAddressHardFail', text) }),
  },
  {
    name: 'profiling',
    value: undefined,
    field: 'enableProfiling',
    help: 'serve profiles, and the verbosity of the log to be set, beside the metrics (/debug/)',
    take: (input, text) => withServers(input, { enableProfiling: parseBoolean('enableProfiling', text) }),
  },
]

export const clientFlags: readonly Flag[] = [
  {
    name: 'kubeconfig',
    value: 'FILE',
    field: 'clientConnection.kubeconfig',
    help: 'how the Kubernetes API is reached, and as whom',
    take: (input, text) => withConnection(input, { kubeconfig: text }),
  },
  {
    name: 'master',
    value: 'URL',
    field: 'master',
    help: 'address of the Kubernetes API, instead of the one in the kubeconfig (default: the cluster of the pod that it runs in)',
    isBesideConfig: true,
    take: (input, text) => ({ ...input, client: { ...input.client, master: text } }),
  },
  {
    name: 'kube-api-content-type',
    value: 'TYPE',
    field: 'clientConnection.contentType',
    help: 'application/json: JSON alone is asked for, else protobuf and then JSON',
    take: (input, text) => withConnection(input, { contentType: text }),
  },
  {
    name: 'kube-api-qps',
    value: 'NUMBER',
    field: 'clientConnection.qps',
    help: 'Events a second, on the average; negative: no limit (default 5)',
    take: (input, text) => withConnection(input, { qps: parseDecimal('clientConnection.qps', text) }),
  },
  {
    name: 'kube-api-burst',
    value: 'NUMBER',
    field: 'clientConnection.burst',
    help: 'Events at once (default 10)',
    take: (input, text) => withConnection(input, { burst: parseInteger('clientConnection.burst', text) }),
  },
]

function withServers(input: ConfigInput, changes: ServersInput): ConfigInput {
  return { ...input, servers: { ...input.servers, ...changes } }
}

function withConnection(input: ConfigInput, changes: ConnectionInput): ConfigInput {
  const clientConnection = { ...input.client?.clientConnection, ...changes }
  return { ...input, client: { ...input.client, clientConnection } }
}
