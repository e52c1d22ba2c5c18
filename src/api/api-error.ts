/** What went wrong between us and the API server; each is tried again. */
export type ApiErrorCode =
  /** No connection, or it broke. */
  | 'connection'
  /** No credentials: a file cannot be read, or a plugin fails. */
  | 'credentials'
  /** No answer in time, or nothing more of it. */
  | 'silence'
  /** The server answered, and refused. */
  | 'status'
  /** What came is not what the API sends. */
  | 'garbage'
  /** A streamed list ended in good order, but before its end. */
  | 'unfinished'

export interface ApiErrorFields {
  readonly code: ApiErrorCode
  /** Method and path, or what was read. */
  readonly operation: string
  readonly problem: string
  /** HTTP status; absent unless `code` is `status`. */
  readonly status?: number
  /** How long the server asks us to wait; 0: it does not. */
  readonly retryAfterMs?: number
}

/** A request to the API server, or the reading of its answer, failed. */
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
