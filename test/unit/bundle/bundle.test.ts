// The parts of a bundle, and the secrets that are left out.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type BundleFile, collect, type Part } from '../../../src/bundle/index.js'
import { withoutSecrets } from '../../../src/bundle/testing.js'
import { ManualClock } from '../../support/manual-clock.js'

describe('secrets', () => {
  const cases: readonly (readonly [text: string, shown: string])[] = [
    ['http://admin:p@ss@proxy:3128/x', 'http://(left out)@proxy:3128/x'],
    ['https://token@host', 'https://(left out)@host'],
    ['Authorization: Bearer abc.def-123', 'Authorization: Bearer (left out)'],
    ['authorization: Basic YWRtaW46cGFzcw==', 'authorization: Basic (left out)'],
    ['{"token":"abc","name":"web"}', '{"token":"(left out)","name":"web"}'],
    [
      String.raw`"{\"bearer_token\":\"a b\",\"x\":1}"`,
      String.raw`"{\"bearer_token\":\"(left out)\",\"x\":1}"`,
    ],
    ['password: abc\nname: web', 'password: (left out)\nname: web'],
    ['client-key-data: TFMwdA==', 'client-key-data: (left out)'],
    ['?access_token=abc&x=1', '?access_token=(left out)&x=1'],
    ['eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2ln', '(left out)'],
    ['a\n-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\nb', 'a\n(left out)\nb'],
    ["http://user:pa'ss@proxy:3128", 'http://(left out)@proxy:3128'],
    [`"password":"ab'cd"`, '"password":"(left out)"'],
    [String.raw`password="a\"bcd"`, 'password="(left out)"'],
    ['--bearer-token abcdef -v 2', '--bearer-token (left out) -v 2'],
    ['Proxy-Authorization: Digest abcdef', 'Proxy-Authorization: Digest (left out)'],
    ['AWS_SECRET_ACCESS_KEY=abc/def', 'AWS_SECRET_ACCESS_KEY=(left out)'],
    ['{"secretAccessKey":"abc"}', '{"secretAccessKey":"(left out)"}'],
    ['{"token-data":"abc"}', '{"token-data":"(left out)"}'],
    ['privateKey: abc', 'privateKey: (left out)'],
    ['passphrase=abc', 'passphrase=(left out)'],
    ['token: |\n  abc\nname: web', 'token: (left out)\n  (left out)\nname: web'],
    ['password: |\n  one two\n  three\nname: web', 'password: (left out)\n  (left out)\nname: web'],
    ['["--token","abc","--v=2"]', '["--token","(left out)","--v=2"]'],
    ['args:\n- --password\n- abc\n- -v', 'args:\n- --password\n- (left out)\n- -v'],
    [`login --token 'abc' -v`, `login --token '(left out)' -v`],
    ['login --token="abc" -v', 'login --token="(left out)" -v'],
    [String.raw`"login --token \"abc\" -v"`, String.raw`"login --token \"(left out)\" -v"`],
    ['{"name":"LOGIN_TOKEN","value":"abc"}', '{"name":"LOGIN_TOKEN","value":"(left out)"}'],
    ['- name: LOGIN_TOKEN\n  value: abc\n', '- name: LOGIN_TOKEN\n  value: (left out)\n'],
    ['http://user:pa/ss@proxy:3128', 'http://(left out)@proxy:3128'],
    ['Authorization: Bearer ab:cdefgh', 'Authorization: Bearer (left out)'],
    [
      String.raw`{\"authorization\":\"Bearer abcdef\"}`,
      String.raw`{\"authorization\":\"Bearer (left out)\"}`,
    ],
    ['key: LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQo=', 'key: (left out)'],
    ['plugin says: refresh_token abcdef', 'plugin says: refresh_token (left out)'],
    ['the client secret abcdefgh', 'the client secret (left out)'],
    ['password hunter22', 'password (left out)'],
    ['Cookie: session=abc; other=d', 'Cookie: (left out)'],
    ['{"set-cookie":"session=abc; Secure","x":1}', '{"set-cookie":"(left out)","x":1}'],
    ['docker login -u me -p abc host', 'docker login -u me -p (left out) host'],
    ['["login","-p","abc"]', '["login","-p","(left out)"]'],
    ['Authorization: Negotiate YII=', 'Authorization: Negotiate (left out)'],
    [
      'Authorization: AWS4-HMAC-SHA256 Credential=AKI/x, Signature=fe5f',
      'Authorization: AWS4-HMAC-SHA256 (left out)',
    ],
    ['Authorization: abc', 'Authorization: (left out)'],
    ['{"auths":{"r.io":{"auth":"bWU6cHc="}}}', '{"auths":{"r.io":{"auth":"(left out)"}}}'],
    ['.dockerconfigjson: eyJhdXRocyI6e319', '.dockerconfigjson: (left out)'],
    ['{"value":"a b","name":"DB_PASSWORD"}', '{"value":"(left out)","name":"DB_PASSWORD"}'],
    ['- value: a b\n  name: LOGIN_TOKEN\n', '- value: (left out)\n  name: LOGIN_TOKEN\n'],
    // The time is proportional to the length: this took minutes.
    ['value: a '.repeat(50_000), 'value: a '.repeat(50_000)],
    ['authorization '.repeat(50_000), 'authorization '.repeat(50_000)],
    ['a://b:'.repeat(100_000), 'a://b:'.repeat(100_000)],
    ['a-'.repeat(300_000), 'a-'.repeat(300_000)],
    [`token: |${'\n'.repeat(200_000)}`, `token: (left out)${'\n'.repeat(200_000)}`],
    ['aaaaaaaaaaaaaaaaaaaaa://u:'.repeat(100_000), 'aaaaaaaaaaaaaaaaaaaaa://u:'.repeat(100_000)],
    ['eyJ-'.repeat(100_000), 'eyJ-'.repeat(100_000)],
    // A value without an end overflowed the stack of regular expressions.
    [`token="${'a'.repeat(20_000_000)}`, `token="(left out)${'a'.repeat(20_000_000 - 65_536)}`],
    // These are no secrets.
    ['default/web:http/TCP -> 10.96.0.10:80', 'default/web:http/TCP -> 10.96.0.10:80'],
    ['"default/x--token","port":"http"', '"default/x--token","port":"http"'],
    ['docker://registry:5000/viaduct@sha256:0123', 'docker://registry:5000/viaduct@sha256:0123'],
    ['kube-system/token-controller serves', 'kube-system/token-controller serves'],
    ['http://10.0.0.1:6443/api', 'http://10.0.0.1:6443/api'],
    ['-A KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m tcp', '-A KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m tcp'],
    ['-A INPUT ! -p 47 -j DROP', '-A INPUT ! -p 47 -j DROP'],
    ['mkdir -p /run/x', 'mkdir -p /run/x'],
    ['token file cannot be read', 'token file cannot be read'],
    ['{"value":"a","name":"LOG_LEVEL"}', '{"value":"a","name":"LOG_LEVEL"}'],
    ['authorization.k8s.io/v1', 'authorization.k8s.io/v1'],
  ]
  for (const [text, shown] of cases)
    it(`of ${JSON.stringify(text.slice(0, 50))}`, () => {
      assert.equal(withoutSecrets(text), shown)
    })
})

/** Fails at once. */
async function fail(): Promise<string> {
  return await Promise.reject(new Error('token: abc'))
}

async function* endless(): AsyncGenerator<string> {
  for (;;) yield await Promise.resolve('1234')
}

/** Never ends. */
async function* stuck(): AsyncGenerator<string> {
  yield 'begin'
  await new Promise(() => {})
}

async function files(parts: readonly Part[], clock = new ManualClock()): Promise<readonly BundleFile[]> {
  const found: BundleFile[] = []
  const options = { partMs: 1000, partLength: 10, clock, onPart: () => {}, describe: String }
  for await (const file of collect(parts, options)) found.push(file)
  return found
}

describe('the parts of a bundle', () => {
  const good: Part = { name: 'good', make: async () => 'text' }
  const goodFile = { name: 'good', text: 'text', isIncomplete: false }

  it('that fails becomes NAME.error, without secrets, and the rest goes on', async () => {
    assert.deepEqual(await files([{ name: 'bad', make: fail }, good]), [
      { name: 'bad.error', text: 'Error: token: (left out)\n', isIncomplete: true },
      goodFile,
    ])
  })

  it('that is too long is cut', async () => {
    assert.deepEqual(await files([{ name: 'long', make: endless }, good]), [
      { name: 'long', text: '1234123412', isIncomplete: true },
      {
        name: 'long.error',
        text: 'The part has more than 10 characters: the rest is left out.\n',
        isIncomplete: true,
      },
      goodFile,
    ])
  })

  it('that takes too long is left, with what it has', async () => {
    const clock = new ManualClock()
    const made = files([{ name: 'slow', make: stuck }, good], clock)
    await clock.advance(1000)
    assert.deepEqual(await made, [
      { name: 'slow', text: 'begin', isIncomplete: true },
      { name: 'slow.error', text: 'The part was not complete after 1 s.\n', isIncomplete: true },
      goodFile,
    ])
  })
})
