// The way from kubeadm's kube-proxy to Viaduct and back (docs/installing.md), against the objects as kubeadm writes them.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { load } from 'js-yaml'
import { parseArguments } from '../../../src/cli/index.js'
import { inputWarnings, type Config } from '../../../src/config/index.js'
import { kubeadmConfig, kubeadmKubeconfig } from '../../support/kubeadm.js'
import { buildKustomization } from '../../support/kustomization.js'
import { treeText } from '../../support/tree.js'

interface PodSpec {
  readonly nodeSelector: Readonly<Record<string, string>>
  readonly affinity?: {
    readonly nodeAffinity: {
      readonly requiredDuringSchedulingIgnoredDuringExecution: {
        readonly nodeSelectorTerms: readonly { readonly matchExpressions: readonly Expression[] }[]
      }
    }
  }
  readonly containers: readonly { readonly args: readonly string[] }[]
  readonly volumes: readonly unknown[]
}

interface Expression {
  readonly key: string
  readonly operator: 'NotIn'
  readonly values: readonly string[]
}

interface DaemonSet {
  readonly spec: { readonly template: { readonly spec: PodSpec } }
}

function daemonSetOf(path: string): DaemonSet {
  const value: DaemonSet = JSON.parse(JSON.stringify(load(treeText(path))))
  return value
}

function configDocument(): object {
  const document: object = JSON.parse(JSON.stringify(load(kubeadmConfig)))
  return document
}

const overlay = 'deploy/kubernetes/overlays/kubeadm'
const found = buildKustomization(overlay).objects.filter(({ kind }) => kind === 'DaemonSet')
const [viaduct]: readonly DaemonSet[] = JSON.parse(JSON.stringify(found))
assert.ok(viaduct !== undefined)
const viaductPod = viaduct.spec.template.spec
const kubeProxyPod: PodSpec = {
  ...daemonSetOf('test/support/kubeadm/daemonset.yaml').spec.template.spec,
  // The patch only adds fields, so a strategic merge is this one.
  ...daemonSetOf(`${overlay}/kube-proxy.yaml`).spec.template.spec,
}

/** The agent's configuration from the arguments of its container and a text of config.conf. */
function configOf(text: string): Config {
  const args = viaductPod.containers[0]?.args.map((word) => word.replace('$(NODE_NAME)', 'node-a')) ?? []
  const invocation = parseArguments(args, (path) => {
    assert.equal(path, '/var/lib/kube-proxy/config.conf')
    return Buffer.from(text)
  })
  assert.ok('config' in invocation, 'text' in invocation ? invocation.text : '')
  return invocation.config
}

/** A valid other value of each field that kubeadm writes. */
const otherValues: Readonly<Record<string, unknown>> = {
  bindAddress: '192.0.2.1',
  bindAddressHardFail: true,
  'clientConnection.acceptContentTypes': 'application/json',
  'clientConnection.burst': 20,
  'clientConnection.contentType': 'application/json',
  'clientConnection.kubeconfig': '/etc/other.conf',
  'clientConnection.qps': 9,
  clusterCIDR: '10.245.0.0/16',
  configSyncPeriod: '20m0s',
  'conntrack.maxPerCore': 1,
  'conntrack.min': 1,
  'conntrack.tcpBeLiberal': true,
  'conntrack.tcpCloseWaitTimeout': '2h0m0s',
  'conntrack.tcpEstablishedTimeout': '2h0m0s',
  'conntrack.udpStreamTimeout': '20s',
  'conntrack.udpTimeout': '20s',
  'detectLocal.bridgeInterface': 'cni0',
  'detectLocal.interfaceNamePrefix': 'cali',
  detectLocalMode: 'NodeCIDR',
  enableProfiling: true,
  healthzBindAddress: '127.0.0.1:10256',
  hostnameOverride: 'node-b',
  'iptables.localhostNodePorts': false,
  'iptables.masqueradeAll': true,
  'iptables.masqueradeBit': 15,
  'iptables.minSyncPeriod': '2s',
  'iptables.syncPeriod': '40s',
  'ipvs.excludeCIDRs': ['192.0.2.0/24'],
  'ipvs.minSyncPeriod': '2s',
  'ipvs.scheduler': 'lc',
  'ipvs.strictARP': true,
  'ipvs.syncPeriod': '40s',
  'ipvs.tcpFinTimeout': '20s',
  'ipvs.tcpTimeout': '20s',
  'ipvs.udpTimeout': '20s',
  'logging.flushFrequency': '7s',
  'logging.options.json.infoBufferSize': '1Ki',
  'logging.options.text.infoBufferSize': '1Ki',
  'logging.verbosity': 2,
  metricsBindAddress: '127.0.0.1:10250',
  mode: 'ipvs',
  'nftables.masqueradeAll': true,
  'nftables.masqueradeBit': 15,
  'nftables.minSyncPeriod': '2s',
  'nftables.syncPeriod': '40s',
  nodePortAddresses: ['192.0.2.0/24'],
  oomScoreAdj: -998,
  portRange: '30000-30010',
  showHiddenMetricsForVersion: '1.35',
  'winkernel.enableDSR': true,
  'winkernel.forwardHealthCheckVip': true,
  'winkernel.networkName': 'l2',
  'winkernel.rootHnsEndpointName': 'cbr0',
  'winkernel.sourceVip': '192.0.2.9',
}

function fieldsOf(value: object, prefix = ''): readonly string[] {
  return Object.entries(value).flatMap(([key, inner]: [string, unknown]) =>
    typeof inner === 'object' && inner !== null && !Array.isArray(inner)
      ? fieldsOf(inner, `${prefix}${key}.`)
      : [`${prefix}${key}`],
  )
}

/** kubeadm's configuration with one other value. */
function changed(field: string, value: unknown): string {
  const document = configDocument()
  const keys = field.split('.')
  const last = keys.pop() ?? ''
  Object(keys.reduce<unknown>((inner, key) => Object(inner)[key], document))[last] = value
  return JSON.stringify(document)
}

describe("kubeadm's configuration", () => {
  const asWritten = configOf(kubeadmConfig)

  it('is taken as it is, without a warning', () => {
    assert.deepEqual(inputWarnings(asWritten), [])
    const { mode, clusterCIDR, hostnameOverride } = asWritten
    assert.deepEqual([mode, clusterCIDR.length, hostnameOverride], ['iptables', 1, 'node-a'])
  })

  it('has the fields of this test', () => {
    const fields = fieldsOf(configDocument()).filter((field) => !/^(?:apiVersion|kind)$/.test(field))
    assert.deepEqual(fields.toSorted(), Object.keys(otherValues).toSorted())
  })

  for (const [field, value] of Object.entries(otherValues)) {
    // The flag --hostname-override of the DaemonSet has precedence over the field, as with kube-proxy.
    if (field === 'hostnameOverride') continue
    it(`takes another value of ${field}, or warns`, () => {
      const config = configOf(changed(field, value))
      const isNamed = inputWarnings(config).some((warning) => warning.includes(field))
      const { withoutEffect: _inert, ...effective } = config
      const { withoutEffect: _formerInert, ...formerEffective } = asWritten
      if (!isNamed) assert.notDeepEqual(effective, formerEffective)
    })
  }

  it('leads to the API server by its own kubeconfig, from the same ConfigMap', () => {
    const { clientConnection } = asWritten.client
    assert.equal(clientConnection.kubeconfig, '/var/lib/kube-proxy/kubeconfig.conf')
    assert.match(kubeadmKubeconfig, /server: https:\/\/control-plane\.example:6443$/m)
    const mounted = { name: 'config', configMap: { name: 'kube-proxy' } }
    assert.deepEqual(viaductPod.volumes[0], mounted)
  })
})

/** Whether the scheduler may place a pod on a node with these labels. */
function fits({ nodeSelector, affinity }: PodSpec, labels: Readonly<Record<string, string>>): boolean {
  const terms = affinity?.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms
  const isSelected = Object.entries(nodeSelector).every(([key, value]) => labels[key] === value)
  // A node without the label satisfies NotIn.
  const isAllowed = ({ key, operator, values }: Expression): boolean => {
    assert.equal(operator, 'NotIn')
    return !values.includes(labels[key] ?? '')
  }
  return (
    isSelected && (terms ?? [{ matchExpressions: [] }]).some((term) => term.matchExpressions.every(isAllowed))
  )
}

describe('the label service-proxy', () => {
  const rows = [
    { label: undefined, runs: ['kube-proxy'] },
    { label: 'viaduct', runs: ['viaduct'] },
    { label: 'none', runs: [] },
    { label: 'kube-proxy', runs: ['kube-proxy'] },
  ]
  for (const { label, runs } of rows) {
    it(`${label ?? '(none)'}: the node runs ${runs.join() || 'neither'}`, () => {
      const node = { 'kubernetes.io/os': 'linux', 'kubernetes.io/arch': 'amd64' }
      const labels: Record<string, string> = label === undefined ? node : { ...node, 'service-proxy': label }
      const pods = { viaduct: viaductPod, 'kube-proxy': kubeProxyPod }
      const running = Object.entries(pods).filter(([, pod]) => fits(pod, labels))
      assert.deepEqual(
        running.map(([name]) => name),
        runs,
      )
    })
  }

  it('leaves the node to kube-proxy alone while Viaduct has no image for it', () => {
    const labels = { 'kubernetes.io/os': 'linux', 'kubernetes.io/arch': 's390x' }
    assert.deepEqual([fits(viaductPod, labels), fits(kubeProxyPod, labels)], [false, true])
  })
})
