// Messages for failed connections, which say what to check.
import { ApiError } from './api-error.js'
import type { Login } from './client-options.js'
import { Silence } from './transport/exchange.js'

// The codes of node:tls for OpenSSL's X509_V_ERR_… begin like this.
const distrust =
  /^(?:UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_|CERT_|INVALID_CA|PATH_LENGTH_|INVALID_PURPOSE|HOSTNAME_MISMATCH)/u

// RFC 9113 section 7, in the order of their numbers.
const http2Errors = [
  'NO_ERROR',
  'PROTOCOL_ERROR',
  'INTERNAL_ERROR',
  'FLOW_CONTROL_ERROR',
  'SETTINGS_TIMEOUT',
  'STREAM_CLOSED',
  'FRAME_SIZE_ERROR',
  'REFUSED_STREAM',
  'CANCEL',
  'COMPRESSION_ERROR',
  'CONNECT_ERROR',
  'ENHANCE_YOUR_CALM',
  'INADEQUATE_SECURITY',
  'HTTP_1_1_REQUIRED',
]

/** `trusted`: the origin of the certificates that verify the server. */
export function explainConnection(error: unknown, trusted = 'those of this process'): string {
  if (!(error instanceof Error)) return String(error)
  const code = 'code' in error ? String(error.code) : ''
  if (distrust.test(code)) {
    return `the server's certificate is not trusted: ${error.message} (${code}); trusted: ${trusted}`
  }
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID')
    return `the server's certificate does not name the server: ${error.message}`
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN') {
    return `the name of the server has no address: ${error.message}`
  }
  const name = nameOfHttp2Error(error)
  if (code === 'ERR_HTTP2_SESSION_ERROR') return `the server ended the connection: ${name}`
  if (code === 'ERR_HTTP2_STREAM_ERROR') return `the server ended the request: ${name}`
  // The message of OpenSSL also names a line of its source; its reason does not.
  if ('reason' in error && typeof error.reason === 'string' && code.startsWith('ERR_SSL')) {
    return `TLS: ${error.reason} (${code})`
  }
  // An AggregateError, for a host with several addresses, has no message.
  return error.message === '' ? code : error.message
}

/** Node's own words, such as `Stream closed with error code NGHTTP2_INTERNAL_ERROR` or `Session closed with error code 2`. */
function nameOfHttp2Error({ message }: Error): string {
  const code = message.split(' ').at(-1) ?? ''
  return (http2Errors[Number(code)] ?? code).replace('NGHTTP2_', '')
}

/** The ApiError of a request whose connection failed, or was silent for too long. */
export function connectionError(operation: string, error: unknown, login?: Login): ApiError {
  if (error instanceof ApiError) return error
  if (error instanceof Silence) return new ApiError({ code: 'silence', operation, problem: error.message })
  return new ApiError({ code: 'connection', operation, problem: explainConnection(error, login?.trusted) })
}
