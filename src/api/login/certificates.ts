// Whether certificates and keys can be used. NB: Node takes a CA that is none without a word, and behind a proxy other things that
// are wrong would end the process.
import { X509Certificate } from 'node:crypto'
import { createSecureContext } from 'node:tls'
import { ConfigError } from '../../errors.js'
import { explainConnection } from '../connection-problem.js'

/** `name` is for the message. Throws ConfigError. */
export function examineAuthority(name: string, pem: string): void {
  if (certificateIn(pem) === undefined) throw new ConfigError(name, 'must hold certificates as PEM')
}

/** Returns when it expires, in milliseconds since 1970. Throws ConfigError. */
export function examineClientCertificate(name: string, cert: string, key: string): number {
  const certificate = certificateIn(cert)
  if (certificate === undefined) throw new ConfigError(name, 'must hold certificates as PEM')
  try {
    createSecureContext({ cert, key })
  } catch (error) {
    throw new ConfigError(name, `does not go with its key, which must be PEM: ${explainConnection(error)}`)
  }
  return Date.parse(certificate.validTo)
}

/** The first one; undefined: there is none. */
function certificateIn(pem: string): X509Certificate | undefined {
  try {
    return pem.includes('-----BEGIN') ? new X509Certificate(pem) : undefined
  } catch {
    return undefined
  }
}
