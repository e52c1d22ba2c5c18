// Messages for failed connections, which say what to check.

// The codes of node:tls for OpenSSL's X509_V_ERR_… begin like this.
const distrust =
  /^(?:UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_|CERT_|INVALID_CA|PATH_LENGTH_|INVALID_PURPOSE|HOSTNAME_MISMATCH)/u

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
  // The message of OpenSSL also names a line of its source; its reason does not.
  if ('reason' in error && typeof error.reason === 'string' && code.startsWith('ERR_SSL')) {
    return `TLS: ${error.reason} (${code})`
  }
  // An AggregateError, for a host with several addresses, has no message.
  return error.message === '' ? code : error.message
}
