// Checks certificates and keys. NB: Node accepts an invalid CA without an error, and behind a proxy other invalid files would end the
// process.
import { X509Certificate } from 'node:crypto'
import { createSecureContext } from 'node:tls'
import { ConfigError } from '../../errors.js'
import { explainConnection } from '../connection-problem.js'

/** Checks the certificates of an authority. Throws ConfigError, which names `name`. */
export function examineAuthority(name: string, pem: string): void {
  if (certificateIn(pem) === undefined) throw new ConfigError(name, 'must hold certificates as PEM')
}

/** Checks a client certificate. Returns its expiry in milliseconds since 1970. Throws ConfigError. */
export function examineClientCertificate(name: string, cert: string, key: string): number {
  const certificate = certificateIn(cert)
  if (certificate === undefined) throw new ConfigError(name, 'must hold certificates as PEM')
  try {
    createSecureContext({ cert, key })
  } catch (error) {
    throw new ConfigError(name, `does not match its key, which must be PEM: ${explainConnection(error)}`)
  }
  return Date.parse(certificate.validTo)
}

/** The first certificate; undefined: there is none. */
function certificateIn(pem: string): X509Certificate | undefined {
  try {
    return pem.includes('-----BEGIN') ? new X509Certificate(pem) : undefined
  } catch {
    return undefined
  }
}
