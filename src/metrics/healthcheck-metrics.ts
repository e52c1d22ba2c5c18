// Results of health checks, which Kubernetes scrapes apart from all other metrics (k8s.io/component-base/metrics/prometheus/slis).
import { Registry } from 'prom-client'
import { counter, gauge } from './kinds.js'

/** A page of `/metrics/slis`: none of its metrics is in the registry of the others. */
export interface HealthcheckMetrics {
  /** `name`: of the check; `type`: of the page that asked for it, such as `healthz`. */
  count(name: string, type: string, isWell: boolean): void
  readonly contentType: string
  /** All in the text that Prometheus reads. */
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
