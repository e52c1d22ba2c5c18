import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** A self-signed certificate for 127.0.0.1, ::1 and viaduct.test, or of a client. `cert` is its own CA. */
export interface Certificate {
  readonly cert: string
  readonly key: string
}

/** Makes a certificate with openssl, valid for a day. */
export function makeCertificate(commonName = 'viaduct-test'): Certificate {
  const folder = mkdtempSync(join(tmpdir(), 'viaduct-tls-'))
  try {
    const [cert, key] = [join(folder, 'cert.pem'), join(folder, 'key.pem')]
    const algorithm = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes']
    const subject = [
      '-subj',
      `/CN=${commonName}`,
      '-addext',
      'subjectAltName=IP:127.0.0.1,IP:::1,DNS:viaduct.test',
      '-days',
      '1',
    ]
    execFileSync('openssl', ['req', '-x509', ...algorithm, ...subject, '-keyout', key, '-out', cert], {
      stdio: 'ignore',
    })
    return { cert: readFileSync(cert, 'utf8'), key: readFileSync(key, 'utf8') }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
