import type { ServersConfig } from '../config/index.js'
import { StatusPage } from '../page/index.js'
import { inspected, type PageOptions, type Shown } from './open-control.js'

/** The status page; undefined: the metrics server has none. */
export function openStatusPage(options: PageOptions, shown: Shown): StatusPage | undefined {
  if (!isServed(options.config.servers)) return undefined
  return new StatusPage({ inspected: inspected(options, shown), clock: options.clock })
}

/** `auto`: the page names every Service and endpoint, so other machines get it only if the operator asks for it. */
function isServed({ statusPage, metricsBindAddress }: ServersConfig): boolean {
  if (metricsBindAddress === undefined || statusPage === 'never') return false
  const { host } = metricsBindAddress
  return statusPage === 'always' || host === '::1' || host.startsWith('127.')
}
