// docs/metrics.md: names, types, labels and buckets of metrics come from the registry; meanings, modes and the order from the document.
import { Registry } from 'prom-client'
import { replacePart, rowsOf, tableOf } from './tables.mjs'

const nothing = new Map()

/** The prom-client objects of all metrics of /metrics, in the order of their registration. */
async function registered() {
  const { LoopDelays, openKernelMetrics, openLocalhostNodePortMetrics, openMetrics, openProcessMetrics, openRelayMetrics } =
    await import('../../out/ts/src/metrics/index.js')
  const { systemClock } = await import('../../out/ts/src/clock.js')
  const registry = new Registry()
  openMetrics(registry)
  openKernelMetrics(registry, { calls: () => nothing, packets: async () => undefined })
  openRelayMetrics(registry, async () => undefined)
  openLocalhostNodePortMetrics(registry, () => ({}))
  openProcessMetrics(registry, { build: { version: '0.0.0', commit: 'unknown', featureGates: {} }, clock: systemClock, log: {}, loopDelays: new LoopDelays() })
  return registry.getMetricsAsArray()
}

export async function fillMetrics(document) {
  const metrics = await registered()
  const filled = replacePart(document, 'metrics', (lines) => {
    const kept = new Map(rowsOf(lines).map(([name, , , , modes, more]) => [name, [modes, more]]))
    const places = [...kept.keys()]
    const rows = metrics.map(({ constructor, name, help, labelNames = [] }) => {
      const [modes = '', more = ''] = kept.get(`\`${name}\``) ?? []
      if (modes === '') throw new Error(`docs/metrics.md does not name the modes of ${name}`)
      return [`\`${name}\``, constructor.name.toLowerCase(), labelNames.join(', '), help, modes, more]
    })
    const inOrder = rows.toSorted(([a], [b]) => places.indexOf(a) - places.indexOf(b))
    return tableOf(['name', 'type', 'labels', 'help', 'modes', 'more'], inOrder)
  })
  return replacePart(filled, 'buckets', () => tableOf(['buckets, in seconds', 'of'], bucketRows(metrics)))
}

function bucketRows(metrics) {
  const byBuckets = new Map()
  for (const { name, buckets } of metrics) {
    if (buckets === undefined) continue
    const text = shortened(buckets)
    byBuckets.set(text, [...(byBuckets.get(text) ?? []), `\`${name}\``])
  }
  return [...byBuckets].map(([buckets, names]) => [buckets, names.join(', ')])
}

function shortened(buckets) {
  if (buckets.length <= 20) return buckets.join(', ')
  return `${buckets.slice(0, 5).join(', ')} … ${buckets.at(-1)}: ${buckets.length} in all`
}
