/** The kind of a failed request. The caller retries all of them. */
export type ApiErrorCode =
  /** There is no connection, or it broke. */
  | 'connection'
  /** There are no credentials: a file cannot be read, or a plugin fails. */
  | 'credentials'
  /** The answer, or its next part, did not come in time. */
  | 'silence'
  /** The server refused the request. */
  | 'status'
  /** The answer is not an answer of the Kubernetes API. */
  | 'garbage'
  /** The connection ended in order, before the end of a streamed list. */
  | 'unfinished'
  /** The server's history is not the one that the agent followed: it is at an older version, or has other objects. */
  | 'history'

export interface ApiErrorFields {
  readonly code: ApiErrorCode
  /** Method and path of the request. */
  readonly operation: string
  readonly problem: string
  /** HTTP status; with the code `status`, and with `history` if the server said so. */
  readonly status?: number
  /** The delay that the server asks for; 0: none. */
  readonly retryAfterMs?: number
}

/** A request to the API server failed, or its answer could not be read. */
export class ApiError extends Error {
  override readonly name = 'ApiError'
  readonly code: ApiErrorCode
  readonly status: number | undefined
  readonly retryAfterMs: number

  constructor(fields: ApiErrorFields) {
    super(`${fields.operation}: ${fields.problem}`)
    this.code = fields.code
    this.status = fields.status
    this.retryAfterMs = fields.retryAfterMs ?? 0
  }
}
