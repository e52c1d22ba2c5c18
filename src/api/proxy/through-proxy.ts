import type { Clock } from '../../clock.js'
import type { ClientOptions } from '../client-options.js'

/** `options` with connections through `proxy`; with undefined, unchanged. */
export async function throughProxy(
  options: ClientOptions,
  proxy: URL | undefined,
  clock: Clock,
): Promise<ClientOptions> {
  if (proxy === undefined) return options
  // Imported here because its libraries take some milliseconds to load.
  const { proxyAgent } = await import('./proxy-agent.js')
  const agent = proxyAgent(proxy, clock)
  return { ...options, login: async (signal) => ({ ...(await options.login(signal)), agent }) }
}
