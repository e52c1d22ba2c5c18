// Why there is no connection, in words that say what to look at.

// How OpenSSL's X509_V_ERR_… begin, as node:tls names them.
const distrust =
  /^(?:UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_|CERT_|INVALID_CA|PATH_LENGTH_|INVALID_PURPOSE|HOSTNAME_MISMATCH)/u

/** `trusted`: where the certificates come from that a server's is held against. */
export function explainConnection(error: unknown, trusted = 'those of this process'): string {
  if (!(error instanceof Error)) return String(error)
  const code = 'code' in error ? String(error.code) : ''
  if (distrust.test(code)) {
    return `the server's certificate is not trusted: ${error.message} (${code}); trusted: ${trusted}`
  }
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID')
    return `the server's certificate is not for it: ${error.message}`
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN') {
    return `the name of the server leads to no address: ${error.message}`
  }
  // Of OpenSSL: without the place in its source.
  if ('reason' in error && typeof error.reason === 'string' && code.startsWith('ERR_SSL')) {
    return `TLS: ${error.reason} (${code})`
  }
  // An AggregateError, of a host with several addresses, has no message.
  return error.message === '' ? code : error.message
}
