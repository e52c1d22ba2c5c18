// The pages of the metrics server: for Prometheus and for operators (F-095 to F-098).
import { openHealthcheckMetrics, type HealthcheckMetrics } from '../metrics/index.js'
import type { Clock } from '../clock.js'
import { json, text, type Page, type Pages, type PageRequest, type Reply } from './reply.js'
import { SharedWork } from './shared-work.js'
import { flagz, statusz, type ProcessFacts } from './zpages.js'

/** Facts for the pages; functions run per request. */
export interface OperatorFacts extends ProcessFacts {
  /** The mode that runs. */
  readonly mode: string
  /** All metrics in the text format of Prometheus. */
  readonly metrics: { readonly contentType: string; metrics(): Promise<string> }
  /** The KubeProxyConfiguration that is in force. */
  readonly configuration: () => unknown
  /** Texts of all flags by name: as written, else their defaults. */
  readonly flags: () => Readonly<Record<string, string>>
}

type PagesClock = Pick<Clock, 'now' | 'schedule' | 'unixSeconds'>

export function operatorPages(facts: OperatorFacts, clock: PagesClock): Pages {
  const checks = openHealthcheckMetrics()
  const metrics = new SharedWork(async () => await metricsReply(facts.metrics), clock)
  const pages: Map<string, Page> = new Map<string, Page>([
    ['/metrics', async () => await metrics.result()],
    ['/metrics/slis', async (request) => await healthchecksReply(request, checks)],
    ['/proxyMode', () => text(facts.mode)],
    ['/configz', () => json({ 'kubeproxy.config.k8s.io': facts.configuration() })],
    ['/healthz', (request) => pinged(request, checks)],
    ['/healthz/ping', () => text('ok')],
    ['/flagz', (request) => flagz(request, facts.flags())],
    ['/statusz', (request) => statusz(request, { facts, nowMs: clock.unixSeconds() * 1000, paths })],
  ])
  const paths: readonly string[] = [...pages.keys()].toSorted()
  return pages
}

async function metricsReply(metrics: OperatorFacts['metrics']): Promise<Reply> {
  return { status: 200, contentType: metrics.contentType, body: await metrics.metrics() }
}

async function healthchecksReply({ method }: PageRequest, checks: HealthcheckMetrics): Promise<Reply> {
  if (method !== 'DELETE') return await metricsReply(checks)
  checks.reset()
  return text('metrics reset\n')
}

/** Shows only that the agent answers; `/healthz` of the health server shows whether the node is served. */
function pinged({ query }: PageRequest, checks: HealthcheckMetrics): Reply {
  checks.count('ping', 'healthz', true)
  return text(query.has('verbose') ? '[+]ping ok\nhealthz check passed\n' : 'ok')
}
