// Every field of a KubeProxyConfiguration (spec section 2.1) but those of the modes, in the order of kube-proxy's own files.
import { formatCidr } from '../address.js'
import type { ClientConnection } from './client.js'
import type { ConfigInput } from './config.js'
import { conntrackFields, ipvsFields, iptablesFields } from './mode-fields.js'
import * as f from './field.js'
import type { Field } from './field.js'
import { formatListenAddress, type ListenAddress, type ServersInput } from './servers.js'
import { inertDefaults, withInert, type InertPath, type InertValue } from './without-effect.js'

/** Made at each call: nobody needs them without a file to read or to write. */
export function kubeProxyFields(): readonly Field[] {
  return [
    f.field('featureGates', f.switches, {
      take: (input, featureGates) => ({ ...input, featureGates }),
      show: ({ featureGates: { AllowServiceExternalIPs, withoutEffect } }) =>
        AllowServiceExternalIPs ? withoutEffect : { AllowServiceExternalIPs, ...withoutEffect },
    }),
    ...clientFields(),
    ...loggingFields(),
    f.field('hostnameOverride', f.text, {
      take: (input, hostnameOverride) => ({ ...input, hostnameOverride }),
      show: ({ hostnameOverride = '' }) => hostnameOverride,
    }),
    f.defaultedField('bindAddress', f.text, {
      take: (input, bindAddress) => ({ ...input, bindAddress }),
      show: ({ bindAddress = '0.0.0.0' }) => bindAddress,
    }),
    ...serverFields(),
    inertField('showHiddenMetricsForVersion', f.text),
    f.field('mode', f.text, {
      take: (input, mode) => ({ ...input, mode }),
      show: ({ mode }) => mode,
    }),
    ...iptablesFields(),
    ...ipvsFields(),
    inertField('nftables.masqueradeBit', f.wholeNumber),
    inertField('nftables.masqueradeAll', f.boolean),
    inertField('nftables.syncPeriod', f.durationText),
    inertField('nftables.minSyncPeriod', f.durationText),
    ...windowsFields(),
    ...trafficFields(),
    f.field('oomScoreAdj', f.wholeNumber, {
      take: (input, oomScoreAdj) => ({ ...input, oomScoreAdj }),
      show: ({ oomScoreAdj }) => oomScoreAdj,
    }),
    ...conntrackFields(),
    inertField('configSyncPeriod', f.durationText),
    inertField('portRange', f.text),
  ]
}

function clientFields(): readonly Field[] {
  return [
    clientField('kubeconfig', f.text),
    clientField('acceptContentTypes', f.text),
    clientField('contentType', f.text),
    clientField('qps', f.number),
    clientField('burst', f.wholeNumber),
  ]
}

function clientField<K extends keyof ClientConnection>(
  key: K,
  type: f.FieldType<ClientConnection[K]>,
): Field {
  return f.field(`clientConnection.${key}`, type, {
    take: (input, value) => ({
      ...input,
      client: { ...input.client, clientConnection: { ...input.client?.clientConnection, [key]: value } },
    }),
    show: ({ client }) => client.clientConnection[key],
  })
}

function loggingFields(): readonly Field[] {
  return [
    f.defaultedField('logging.format', f.text, {
      take: (input, loggingFormat) => ({ ...input, loggingFormat }),
      show: ({ loggingFormat }) => loggingFormat,
    }),
    inertField('logging.flushFrequency', f.durationOrNanoseconds),
    f.field('logging.verbosity', f.wholeNumber, {
      take: (input, verbosity) => ({ ...input, verbosity }),
      show: ({ verbosity }) => verbosity,
    }),
    f.field('logging.vmodule', f.verbosities, {
      take: (input, vmodule) => withInert(input, 'logging.vmodule', vmodule),
      show: ({ withoutEffect }) => String(withoutEffect['logging.vmodule'] ?? ''),
    }),
    inertField('logging.options.text.splitStream', f.boolean),
    inertField('logging.options.text.infoBufferSize', f.quantity),
    inertField('logging.options.json.splitStream', f.boolean),
    inertField('logging.options.json.infoBufferSize', f.quantity),
  ]
}

function serverFields(): readonly Field[] {
  return [
    f.field('healthzBindAddress', f.text, {
      take: (input, healthzBindAddress) => withServers(input, { healthzBindAddress }),
      show: ({ servers }) => addressText(servers.healthzBindAddress),
    }),
    f.field('metricsBindAddress', f.text, {
      take: (input, metricsBindAddress) => withServers(input, { metricsBindAddress }),
      show: ({ servers }) => addressText(servers.metricsBindAddress),
    }),
    f.field('bindAddressHardFail', f.boolean, {
      take: (input, bindAddressHardFail) => withServers(input, { bindAddressHardFail }),
      show: ({ servers }) => servers.bindAddressHardFail,
    }),
    f.field('enableProfiling', f.boolean, {
      take: (input, enableProfiling) => withServers(input, { enableProfiling }),
      show: ({ servers }) => servers.enableProfiling,
    }),
  ]
}

function addressText(address: ListenAddress | undefined): string {
  return address === undefined ? '' : formatListenAddress(address)
}

function windowsFields(): readonly Field[] {
  return [
    inertField('winkernel.networkName', f.text),
    inertField('winkernel.sourceVip', f.text),
    inertField('winkernel.enableDSR', f.boolean),
    inertField('winkernel.rootHnsEndpointName', f.text),
    inertField('winkernel.forwardHealthCheckVip', f.boolean),
    inertField('windowsRunAsService', f.boolean),
  ]
}

function trafficFields(): readonly Field[] {
  return [
    f.field('detectLocalMode', f.text, {
      take: (input, detectLocalMode) => ({ ...input, detectLocalMode }),
      show: ({ detectLocalMode }) => detectLocalMode,
    }),
    f.field('detectLocal.bridgeInterface', f.text, {
      take: (input, bridgeInterface) => ({
        ...input,
        detectLocal: { ...input.detectLocal, bridgeInterface },
      }),
      show: ({ detectLocal }) => detectLocal.bridgeInterface,
    }),
    f.field('detectLocal.interfaceNamePrefix', f.text, {
      take: (input, interfaceNamePrefix) => ({
        ...input,
        detectLocal: { ...input.detectLocal, interfaceNamePrefix },
      }),
      show: ({ detectLocal }) => detectLocal.interfaceNamePrefix,
    }),
    f.field('clusterCIDR', f.commaList, {
      take: (input, clusterCIDR) => ({ ...input, clusterCIDR }),
      show: ({ clusterCIDR }) => clusterCIDR.map(formatCidr),
    }),
    f.field('nodePortAddresses', f.textList, {
      take: (input, nodePortAddresses) => ({ ...input, nodePortAddresses }),
      show: ({ nodePortAddresses }) =>
        nodePortAddresses === 'primary' ? ['primary'] : nodePortAddresses.map(formatCidr),
    }),
  ]
}

/** A duration of zero is as good as none. */
function inertField<T extends InertValue>(path: InertPath, type: f.FieldType<T>): Field {
  return {
    path,
    unknownIn: () => [],
    take: (input, written) => {
      const value = type.read(path, written)
      return value === '0s' ? input : withInert(input, path, value)
    },
    show: ({ withoutEffect }) => withoutEffect[path] ?? inertDefaults[path],
  }
}

function withServers(input: ConfigInput, changes: ServersInput): ConfigInput {
  return { ...input, servers: { ...input.servers, ...changes } }
}
