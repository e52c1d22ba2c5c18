// In: the settings of the client connection, the process's environment, files with credentials. Out: ClientOptions (address
// and credentials of the API server); an ApiClient, which sends requests; the encodings of lists and watches.
// Never: knows a kind of object; retries a request that the server has begun; logs a credential.
// Owner of: connections to the API server; tokens, certificates and plugin credentials until they expire.
// Read next: open-client-options.ts (which credentials); api-client.ts (one request); transport/ (HTTP/1.1 and HTTP/2); formats/wire-format.ts; source/ and events/.
export { ApiError } from './api-error.js'
export type { ApiAnswer, ApiClient, ApiWrite, Peer } from './api-client.js'
export { askOnce, type ApiReply } from './ask-once.js'
export type { ClientOptions } from './client-options.js'
export { openApiClient } from './open-api-client.js'
export { openClientOptions } from './open-client-options.js'
export { FrameError } from './formats/frames.js'
export { message, type FieldProblem } from './formats/protobuf.js'
export * as protobufFields from './formats/protobuf-fields.js'
export {
  FormatError,
  isMapping,
  textOf,
  type ExpectedType,
  type ListEnd,
  type WatchEvent,
  type WireObject,
} from './formats/wire-format.js'
