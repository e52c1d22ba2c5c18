// The traffic table of nftables mode on a real kube-proxy, whose path the environment variable KUBE_PROXY has. docs/nftables.md has the
// command and the result. No suite runs it.
import { inKubeProxyNftables } from '../reference/kube-proxy-differences.js'
import { KubeProxyProgram } from '../reference/kube-proxy-program.js'
import { runTable } from '../table-runner.js'
import { trafficTable } from '../table/index.js'

const { KUBE_PROXY: binary } = process.env
if (binary === undefined) throw new Error('KUBE_PROXY must be the path of a kube-proxy')
const protocols = ['TCP', 'UDP'] as const

runTable('the traffic table on kube-proxy in nftables mode', inKubeProxyNftables(trafficTable(protocols)), {
  subject: new KubeProxyProgram(binary),
  protocols,
})
