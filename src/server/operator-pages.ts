// The pages of the metrics server: for Prometheus and for operators (F-095 to F-098).
import { openHealthcheckMetrics, type HealthcheckMetrics } from '../metrics/index.js'
import type { Clock } from '../clock.js'
import { json, text, type Page, type Pages, type PageRequest, type Reply } from './reply.js'
import { SharedWork } from './shared-work.js'
import { flagz, statusz, type ProcessFacts } from './zpages.js'

/** The data of the pages. The functions are called for each request. */
export interface OperatorFacts extends ProcessFacts {
  /** The active proxy mode. */
  readonly mode: string
  /** All metrics in the text format of Prometheus. */
  readonly metrics: { readonly contentType: string; metrics(): Promise<string> }
  /** The effective KubeProxyConfiguration. */
  readonly configuration: () => unknown
  /** The values of all flags as text, by name; the default for a flag that was not given. */
  readonly flags: () => Readonly<Record<string, string>>
}

type PagesClock = Pick<Clock, 'now' | 'schedule' | 'unixMs'>

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
    ['/flagz', async (request) => await flagz(request, facts.flags())],
    ['/statusz', async (request) => await statusz(request, { facts, nowMs: clock.unixMs(), paths })],
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

/** Shows only that this server replies. `/healthz` of the health server has the node's health. */
function pinged({ query }: PageRequest, checks: HealthcheckMetrics): Reply {
  checks.count('ping', 'healthz', true)
  return text(query.has('verbose') ? '[+]ping ok\nhealthz check passed\n' : 'ok')
}
