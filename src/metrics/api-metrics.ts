// Requests to the API server, with the metric names of Kubernetes' own client library (k8s.io/component-base/metrics).
import { Histogram, type Registry } from 'prom-client'
import { counter } from './kinds.js'

export interface ApiRequestReport {
  readonly host: string
  readonly method: string
  /** Status of the answer; `<error>`: no answer. */
  readonly code: string
  /** Time until the answer began. */
  readonly seconds: number
}

const requestBuckets = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60]

/** Registers the metrics. Call the returned function for each request. */
export function openApiMetrics(registry: Registry): (report: ApiRequestReport) => void {
  const durations = new Histogram({
    name: 'rest_client_request_duration_seconds',
    help: '[ALPHA] Request latency in seconds. Broken down by verb, and host.',
    labelNames: ['verb', 'host'],
    buckets: requestBuckets,
    registers: [registry],
  })
  const results = counter(registry, 'rest_client_requests_total', {
    help: '[ALPHA] Number of HTTP requests, partitioned by status code, method, and host.',
    labelNames: ['code', 'method', 'host'],
  })
  return ({ host, method, code, seconds }) => {
    durations.observe({ verb: method, host }, seconds)
    results.inc({ code, method, host })
  }
}
