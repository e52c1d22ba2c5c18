// The traffic table on kube-proxy's rules, written by iptables-restore. If it fails here, the table is wrong.
import { KubeProxyRules } from '../traffic/reference/subject.js'
import { runTable } from '../traffic/table-runner.js'
import { trafficTable, type TrafficGroup } from '../traffic/table/index.js'

const protocols = ['TCP', 'UDP'] as const

/** The group without cases that need an agent: health checks, and two Services with the same frontend. */
function withoutAgent(group: TrafficGroup): TrafficGroup {
  const rows = group.cases.map((row) => ({
    ...row,
    checks: row.checks.filter(({ kind }) => kind !== 'http'),
  }))
  return {
    ...group,
    cases: rows.filter(({ rules, checks }) => !rules.includes('ADR 7') && checks.length > 0),
  }
}

runTable("the traffic table on kube-proxy's own rules", trafficTable(protocols).map(withoutAgent), {
  subject: new KubeProxyRules(),
  protocols,
  followsChanges: false,
})
