import type { Clock } from '../clock.js'
import type { ApiClient } from './api-client.js'
import type { ClientOptions } from './client-options.js'

/** Opens a client. NB: Node's HTTP and TLS modules load with the first client, because a start from manifests does not need them. */
export async function openApiClient(
  options: ClientOptions,
  clock: Clock,
  signal: AbortSignal,
): Promise<ApiClient> {
  const { ApiClient: Client } = await import('./api-client.js')
  return new Client(options, clock, signal)
}
