// The answers of the API server to the doctor.
import { lookup } from 'node:dns/promises'
import type { ApiReply } from '../api/index.js'

/** The doctor's questions to the API server. */
export interface ApiAnswers {
  readonly server: URL
  /** Sends one request. Throws ApiError. */
  readonly ask: (method: 'GET' | 'POST', path: string, body?: unknown) => Promise<ApiReply>
}

/** The reason why the name of the server has no address; undefined: it has one. */
export async function nameProblem({ server }: ApiAnswers): Promise<string | undefined> {
  try {
    await lookup(server.hostname.replace(/^\[|\]$/gu, ''))
    return undefined
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}
