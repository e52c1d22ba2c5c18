// Results of health checks, which Prometheus scrapes apart from all other metrics (k8s.io/component-base/metrics/prometheus/slis).
import { Registry } from 'prom-client'
import { counter, gauge } from './kinds.js'

/** The page `/metrics/slis`, which has its own registry. */
export interface HealthcheckMetrics {
  /** Counts a check by its name and by the `type` of its page, such as `healthz`. */
  count(name: string, type: string, isWell: boolean): void
  readonly contentType: string
  /** All metrics in the text format of Prometheus. */
  metrics(): Promise<string>
  /** Forgets every sample. */
  reset(): void
}

export function openHealthcheckMetrics(): HealthcheckMetrics {
  const registry = new Registry()
  const state = gauge(registry, 'kubernetes_healthcheck', {
    help: '[STABLE] This metric records the result of a single healthcheck.',
    labelNames: ['name', 'type'],
  })
  const results = counter(registry, 'kubernetes_healthchecks_total', {
    help: '[STABLE] This metric records the results of all healthcheck.',
    labelNames: ['name', 'type', 'status'],
  })
  return {
    count: (name, type, isWell) => {
      state.set({ name, type }, isWell ? 1 : 0)
      results.inc({ name, type, status: isWell ? 'success' : 'error' })
    },
    contentType: registry.contentType,
    metrics: async () => await registry.metrics(),
    reset: () => registry.resetMetrics(),
  }
}
