import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { resolveConfig, wantedEncodings } from '../../../src/config/index.js'
import { type ClientConnection } from '../../../src/config/testing.js'
import { ConfigError } from '../../../src/errors.js'

function wanted(clientConnection: Partial<ClientConnection>): readonly string[] {
  return wantedEncodings(resolveConfig({ client: { clientConnection } }).client.clientConnection)
}

describe('wantedEncodings', () => {
  const protobuf = 'application/vnd.kubernetes.protobuf'
  const json = 'application/json'

  const cases: readonly (readonly [Partial<ClientConnection>, readonly string[]])[] = [
    [{}, ['protobuf', 'json']],
    [{ contentType: protobuf }, ['protobuf', 'json']],
    [{ contentType: json }, ['json']],
    [{ contentType: 'Application/JSON; charset=utf-8' }, ['json']],
    [{ contentType: json, acceptContentTypes: protobuf }, ['protobuf']],
    [{ acceptContentTypes: `${json},${protobuf}` }, ['json', 'protobuf']],
    [{ acceptContentTypes: `${json}, */*` }, ['json', 'protobuf']],
  ]
  for (const [connection, expected] of cases) {
    it(`are ${expected.join(' and ')} for ${JSON.stringify(connection)}`, () =>
      assert.deepEqual(wanted(connection), expected))
  }

  for (const field of ['contentType', 'acceptContentTypes'] as const) {
    it(`refuse an unsupported encoding in ${field}`, () => {
      assert.throws(
        () => wanted({ [field]: `${json}, application/yaml` }),
        (error) =>
          error instanceof ConfigError &&
          error.message.startsWith(`clientConnection.${field}: must be of ${protobuf}, `) &&
          error.message.endsWith('not "application/yaml"'),
      )
    })
  }
})
