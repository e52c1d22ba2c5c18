import type { Clock } from '../clock.js'
import type { ApiClient } from './api-client.js'
import type { ClientOptions } from './client-options.js'

/** NB: HTTP and TLS of Node take their time to load, which a folder of manifests has no use for: they come with the first client. */
export async function openApiClient(
  options: ClientOptions,
  clock: Clock,
  signal: AbortSignal,
): Promise<ApiClient> {
  const { ApiClient: Client } = await import('./api-client.js')
  return new Client(options, clock, signal)
}
