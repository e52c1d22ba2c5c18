// The traffic table on kube-proxy's rules, written by iptables-restore. If it fails here, the table is wrong.
import type { KubernetesObject } from '../../src/source/index.js'
import { KubeProxyRules } from '../traffic/reference/subject.js'
import { runTable } from '../traffic/table-runner.js'
import { trafficTable, type TrafficGroup } from '../traffic/table/index.js'

const protocols = ['TCP', 'UDP'] as const

/** kube-proxy ignores a Service without a cluster IP. */
function hasAddress(object: KubernetesObject): boolean {
  return object.kind !== 'Service' || object.clusterIP !== ''
}

/** The group without cases that need an agent: health checks, two Services with the same frontend, Services without a cluster IP. */
function withoutAgent(group: TrafficGroup): TrafficGroup {
  const rows = group.cases.map((row) => ({
    ...row,
    checks: row.checks.filter(({ kind }) => kind !== 'http'),
  }))
  return {
    ...group,
    cases: rows.filter(
      ({ rules, checks, objects }) =>
        !rules.includes('ADR 7') && checks.length > 0 && objects.every(hasAddress),
    ),
  }
}

runTable("the traffic table on kube-proxy's own rules", trafficTable(protocols).map(withoutAgent), {
  subject: new KubeProxyRules(),
  protocols,
  followsChanges: false,
})
