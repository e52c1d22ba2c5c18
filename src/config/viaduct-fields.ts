// Every field of a ViaductConfiguration: what kube-proxy has no field for.
import * as f from './field.js'
import type { Field } from './field.js'
import { withIpvs } from './mode-fields.js'

/** Made at each call: nobody needs them without a file to read or to write. */
export function viaductFields(): readonly Field[] {
  return [
    f.field('manifests', f.text, {
      take: (input, manifests) => ({ ...input, manifests }),
      show: ({ manifests }) => manifests,
    }),
    f.field('modeFallback', f.boolean, {
      take: (input, modeFallback) => ({ ...input, modeFallback }),
      show: ({ modeFallback }) => modeFallback,
    }),
    f.field('vipBinding', f.text, {
      take: (input, vipBinding) => ({ ...input, vipBinding }),
      show: ({ vipBinding }) => vipBinding,
    }),
    f.field('healthzServer', f.boolean, {
      take: (input, healthzServer) => ({ ...input, servers: { ...input.servers, healthzServer } }),
      show: ({ servers }) => servers.healthzBindAddress !== undefined,
    }),
    f.field('metricsServer', f.boolean, {
      take: (input, metricsServer) => ({ ...input, servers: { ...input.servers, metricsServer } }),
      show: ({ servers }) => servers.metricsBindAddress !== undefined,
    }),
    f.field('ipvs.schedulerFlags', f.textList, {
      take: (input, schedulerFlags) => withIpvs(input, { schedulerFlags }),
      show: ({ ipvs }) => (ipvs.schedulerFlags.length === 0 ? ['none'] : ipvs.schedulerFlags),
    }),
    f.field('ipvs.gracefulPeriod', f.limit, {
      take: (input, gracefulPeriodMs) => withIpvs(input, { gracefulPeriodMs }),
      show: ({ ipvs }) => ipvs.gracefulPeriodMs,
    }),
    f.field('ipvs.runEstimation', f.boolean, {
      take: (input, runEstimation) => withIpvs(input, { runEstimation }),
      show: ({ ipvs }) => ipvs.runEstimation,
    }),
    f.field('ipvs.markMask', f.bits, {
      take: (input, markMask) => withIpvs(input, { markMask }),
      show: ({ ipvs }) => ipvs.markMask,
    }),
  ]
}
