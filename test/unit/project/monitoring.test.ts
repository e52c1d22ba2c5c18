// Checks deploy/monitoring/ against the registry, so that a renamed metric leaves no alert that never fires.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { load } from 'js-yaml'
import { Registry } from 'prom-client'
import {
  openKernelMetrics,
  openMetrics,
  openProcessMetrics,
  LoopDelays,
  openRelayMetrics,
} from '../../../src/metrics/index.js'
import { ManualClock } from '../../support/manual-clock.js'
import { treeText } from '../../support/tree.js'

interface Metric {
  readonly type: string
  readonly labels: readonly string[]
}

/** Metrics by the names of their samples. A histogram has three names. */
async function samples(): Promise<ReadonlyMap<string, Metric>> {
  const registry = new Registry()
  openMetrics(registry)
  openKernelMetrics(registry, {
    calls: () => new Map(),
    packets: async () => undefined,
    clock: new ManualClock(),
  })
  openRelayMetrics(registry, async () => undefined)
  openProcessMetrics(registry, {
    build: { version: '1.2.3', commit: 'unknown', featureGates: { AllowServiceExternalIPs: true } },
    clock: new ManualClock(),
    log: {},
    loopDelays: new LoopDelays(),
  })
  const text = await registry.metrics()
  const found = new Map<string, Metric>([['up', { type: 'gauge', labels: [] }]])
  for (const [, name = '', type = ''] of text.matchAll(/^# TYPE (\w+) (\w+)$/gmu)) {
    const metric: unknown = registry.getSingleMetric(name)
    const labels: unknown = Reflect.get(Object(metric), 'labelNames')
    assert.ok(Array.isArray(labels))
    const ends = type === 'histogram' ? ['_bucket', '_sum', '_count'] : ['']
    for (const end of ends) found.set(name + end, { type, labels: labels.map(String) })
  }
  return found
}

/** Names of metrics in a PromQL query. Names of recording rules have colons. */
function namesIn(query: string): readonly string[] {
  const bare = query.replaceAll(/"[^"]*"/gu, '').replaceAll(/\b(?:by|without|on)\s*\([^)]*\)/gu, '')
  const outside = bare.replaceAll(/\{[^}]*\}/gu, '').replaceAll(/\[[^\]]*\]/gu, '')
  const names = [...outside.matchAll(/(?<![\w:.$])([a-z_][\w:]*)(?!\s*\(|[\w:])/gu)].map(
    ([, name = '']) => name,
  )
  return names.filter((name) => name !== 'and')
}

/** Labels that a query selects or groups by. */
function labelsIn(query: string): readonly string[] {
  const groups = [...query.matchAll(/\bby\s*\(([^)]*)\)/gu)].flatMap(([, list = '']) => list.split(','))
  const selected = [...query.matchAll(/\{([^}]*)\}/gu)].flatMap(([, list = '']) =>
    [...list.matchAll(/(\w+)\s*(?:=|!)/gu)].map(([, label = '']) => label),
  )
  return [...groups.map((label) => label.trim()), ...selected]
}

/** Values of a key at any depth. */
function valuesOf(value: unknown, key: string): readonly string[] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([name, inner]) =>
    name === key && typeof inner === 'string' ? [inner] : valuesOf(inner, key),
  )
}

const rules = load(treeText('deploy/monitoring/rules.yaml'))
const dashboard: unknown = JSON.parse(treeText('deploy/monitoring/dashboard.json'))
const recorded = new Set(valuesOf(rules, 'record'))
const queries = [...valuesOf(rules, 'expr'), ...valuesOf(dashboard, 'expr')]

/** Labels of the scrape and of histograms. */
const given = ['job', 'instance', 'le']

describe('the monitoring queries', () => {
  it('exist', () => assert.ok(recorded.size >= 5 && queries.length >= 40))

  it('use only existing metrics and labels', async () => {
    const known = await samples()
    for (const query of queries) {
      const names = namesIn(query)
      assert.ok(names.length > 0, query)
      const labels = new Set(given)
      for (const name of names) {
        assert.ok(known.has(name) || recorded.has(name), `${name} in ${query}`)
        for (const label of known.get(name)?.labels ?? []) labels.add(label)
      }
      for (const label of labelsIn(query)) assert.ok(labels.has(label), `label ${label} in ${query}`)
    }
  })

  it('take rates only of counters', async () => {
    const known = await samples()
    for (const query of queries) {
      for (const [, name = ''] of query.matchAll(/\b(?:rate|increase)\((\w+)/gu))
        assert.notEqual(known.get(name)?.type, 'gauge', `${name} in ${query}`)
    }
  })

  it('cover every metric of a problem', () => {
    const text = queries.join('\n')
    for (const name of [
      'viaduct_objects_failed',
      'viaduct_api_links_down',
      'viaduct_proxy_mode',
      'viaduct_kernel_errors_total',
      'viaduct_drift_total',
      'viaduct_event_loop_delay_seconds',
    ])
      assert.ok(text.includes(name), name)
  })

  it('have unique names, and each alert has advice', () => {
    const ids = valuesOf(dashboard, 'title')
    assert.equal(new Set(ids).size, ids.length)
    const alerts = valuesOf(rules, 'alert')
    assert.equal(new Set(alerts).size, alerts.length)
    assert.equal(valuesOf(rules, 'summary').length, alerts.length)
    assert.equal(valuesOf(rules, 'description').length, alerts.length)
  })
})
