// Constructors of metrics. Only this file and process-metrics.ts make any, because prom-client was renamed upstream.
import { Counter, Gauge, Histogram, type Registry } from 'prom-client'

/** Values of the label ip_family. */
export type IpFamilyLabel = 'IPv4' | 'IPv6'

export interface CountUp {
  inc(by?: number): void
}

export interface Level {
  set(value: number): void
}

export interface Observation {
  observe(seconds: number): void
}

// kube-proxy's buckets E: 1 ms, doubled 14 times.
export const kubeProxyBuckets = Array.from({ length: 15 }, (_, i) => 0.001 * 2 ** i)
// kube-proxy's buckets N, for changes that take a cluster seconds or minutes.
export const programmingBuckets = [
  0,
  0.25,
  0.5,
  ...Array.from({ length: 59 }, (_, i) => 1 + i),
  ...Array.from({ length: 12 }, (_, i) => 60 + 5 * i),
  ...Array.from({ length: 7 }, (_, i) => 120 + 30 * i),
]
// From 100 us, the cost of one change on an idle machine, to 3.3 s.
export const shortBuckets = Array.from({ length: 16 }, (_, i) => 0.0001 * 2 ** i)

interface Shape<L extends string> {
  readonly help: string
  readonly labelNames?: readonly L[]
}

/** Throws if the name is taken, as the functions below do. */
export function counter<L extends string>(registry: Registry, name: string, shape: Shape<L>): Counter<L> {
  return new Counter({ ...mutable(shape), name, registers: [registry] })
}

export function gauge<L extends string>(registry: Registry, name: string, shape: Shape<L>): Gauge<L> {
  return new Gauge({ ...mutable(shape), name, registers: [registry] })
}

function mutable<L extends string>(shape: Shape<L>): { help: string; labelNames: L[] } {
  return { help: shape.help, labelNames: [...(shape.labelNames ?? [])] }
}

export function familyCounter(registry: Registry, name: string, help: string): Counter<'ip_family'> {
  return counter(registry, name, { help, labelNames: ['ip_family'] })
}

export function familyGauge(registry: Registry, name: string, help: string): Gauge<'ip_family'> {
  return gauge(registry, name, { help, labelNames: ['ip_family'] })
}

export function histogram(
  registry: Registry,
  name: string,
  help: string,
  buckets: number[],
): Histogram<'ip_family'> {
  return new Histogram({ name, help, buckets, labelNames: ['ip_family'], registers: [registry] })
}
