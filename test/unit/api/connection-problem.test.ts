import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { explainConnection } from '../../../src/api/connection-problem.js'

function failure(message: string, fields: object): Error {
  return Object.assign(new Error(message), fields)
}

describe('explainConnection', () => {
  const cases = [
    {
      name: 'a server with a certificate of another CA',
      error: failure('unable to verify the first certificate', { code: 'UNABLE_TO_VERIFY_LEAF_SIGNATURE' }),
      text: "the server's certificate is not trusted: unable to verify the first certificate (UNABLE_TO_VERIFY_LEAF_SIGNATURE); trusted: ca.crt",
    },
    {
      name: 'a server whose certificate has expired',
      error: failure('certificate has expired', { code: 'CERT_HAS_EXPIRED' }),
      text: "the server's certificate is not trusted: certificate has expired (CERT_HAS_EXPIRED); trusted: ca.crt",
    },
    {
      name: 'a server with another name',
      error: failure("Host: b. is not cert's CN: a", { code: 'ERR_TLS_CERT_ALTNAME_INVALID' }),
      text: "the server's certificate does not name the server: Host: b. is not cert's CN: a",
    },
    {
      name: 'a client certificate that the server refuses in the handshake',
      error: failure('40:error:0A:SSL routines:…', {
        code: 'ERR_SSL_SSLV3_ALERT_BAD_CERTIFICATE',
        reason: 'sslv3 alert bad certificate',
      }),
      text: 'TLS: sslv3 alert bad certificate (ERR_SSL_SSLV3_ALERT_BAD_CERTIFICATE)',
    },
    {
      name: 'an unknown host',
      error: failure('getaddrinfo ENOTFOUND api.example', { code: 'ENOTFOUND' }),
      text: 'the name of the server has no address: getaddrinfo ENOTFOUND api.example',
    },
    {
      name: 'several addresses that all refuse',
      error: failure('', { code: 'ECONNREFUSED' }),
      text: 'ECONNREFUSED',
    },
    {
      name: 'any other error',
      error: failure('socket hang up', { code: 'ECONNRESET' }),
      text: 'socket hang up',
    },
    { name: 'a value that is not an Error', error: 'why', text: 'why' },
  ]
  for (const { name, error, text } of cases) {
    it(name, () => assert.equal(explainConnection(error, 'ca.crt'), text))
  }
})
