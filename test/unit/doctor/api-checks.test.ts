// The findings about an API server, by its answers.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ApiError, type ApiReply } from '../../../src/api/index.js'
import { type ApiAnswers, diagnose, type Finding } from '../../../src/doctor/index.js'
import { examinedNode } from '../../support/examined-node.js'

const node = JSON.stringify({ kind: 'Node', metadata: { name: 'node-a' } })
const status = (code: number): string => JSON.stringify({ kind: 'Status', code })
const page = '<html><body>Sign in</body></html>'

/** A server with this answer about the Node. It allows everything but `denied`, and has ServiceCIDRs if `cidrs`. */
function server(
  answer: Partial<ApiReply> | ApiError,
  { denied = '', cidrs = false }: { readonly denied?: string; readonly cidrs?: boolean } = {},
): ApiAnswers & { readonly asked: string[] } {
  const asked: string[] = []
  const reply = { status: 200, body: node, tookMs: 5, skewMs: 0 }
  return {
    asked,
    server: new URL('https://api:6443'),
    node: async () =>
      answer instanceof ApiError
        ? await Promise.reject(answer)
        : await Promise.resolve({ ...reply, ...answer }),
    ask: async (method, path, body) => {
      const text = JSON.stringify(body) ?? ''
      asked.push(`${method} ${path} ${text}`)
      if (method === 'GET')
        return await Promise.resolve({
          ...reply,
          body: JSON.stringify({ resources: cidrs ? [{ name: 'servicecidrs' }] : [] }),
        })
      const allowed = denied === '' || !text.includes(denied)
      return await Promise.resolve({ ...reply, status: 201, body: JSON.stringify({ status: { allowed } }) })
    },
  }
}

const names = ['api-server', 'rbac', 'node-object', 'clock']

async function findings(api: ApiAnswers): Promise<readonly Finding[]> {
  return (await diagnose({ ...examinedNode({}), api })).filter(({ check }) => names.includes(check))
}

describe('the checks of the API server', () => {
  const cases: readonly {
    readonly what: string
    readonly answer: Partial<ApiReply> | ApiError
    readonly seen: RegExp
    readonly statuses: readonly string[]
  }[] = [
    { what: 'that is well', answer: {}, seen: /answers in 5 ms/, statuses: ['ok', 'ok', 'ok', 'ok'] },
    {
      what: 'that is slow',
      answer: { tookMs: 3000 },
      seen: /^an answer took 3000 ms$/,
      statuses: ['warning', 'ok', 'ok', 'ok'],
    },
    {
      what: 'that does not allow to get the Node',
      answer: { status: 403, body: status(403) },
      seen: /answers in/,
      statuses: ['ok', 'ok', 'unknown', 'ok'],
    },
    {
      what: 'that refuses the token',
      answer: { status: 401, body: status(401) },
      seen: /refuses the credentials/,
      statuses: ['broken', 'unknown', 'unknown', 'ok'],
    },
    {
      what: 'that has too many requests',
      answer: { status: 429, body: 'Too many requests, please try again later.\n' },
      seen: /too many requests \(429\)/,
      statuses: ['warning', 'unknown', 'unknown', 'ok'],
    },
    {
      what: 'whose load balancer has no backend',
      answer: { status: 503, body: page },
      seen: /answers with status 503$/,
      statuses: ['broken', 'unknown', 'unknown', 'ok'],
    },
    {
      what: 'in whose place a proxy answers',
      answer: { body: page },
      seen: /is not one of a Kubernetes API server \(status 200\)/,
      statuses: ['broken', 'unknown', 'unknown', 'ok'],
    },
    {
      what: 'in whose place a proxy redirects',
      answer: { status: 302, body: '' },
      seen: /is not one of a Kubernetes API server \(status 302\)/,
      statuses: ['broken', 'unknown', 'unknown', 'ok'],
    },
    {
      what: 'that does not answer',
      answer: new ApiError({ code: 'connection', operation: 'GET /x', problem: 'no answer within 10 s' }),
      seen: /no answer within 10 s/,
      statuses: ['broken', 'unknown', 'unknown', 'unknown'],
    },
  ]
  for (const { what, answer, seen, statuses } of cases)
    it(`name one ${what}`, async () => {
      const api = server(answer)
      const found = await findings(api)
      assert.deepEqual(
        found.map((each) => each.status),
        statuses,
      )
      assert.match(found[0]?.seen ?? '', seen)
      // A server that gave no proper answer is asked nothing else, so that no check waits for it again.
      if (statuses[1] === 'unknown') assert.deepEqual(api.asked, [])
    })

  it('name a clock that is wrong where the server refuses the token', async () => {
    const found = await findings(server({ status: 401, body: status(401), skewMs: -90_000 }))
    assert.equal(found[3]?.seen, "this clock is 90 s behind the API server's")
  })

  for (const isDenied of [false, true])
    it(`are not ok where a kubeconfig ${isDenied ? 'may' : 'can'} not be read`, async () => {
      const all = await diagnose({ ...examinedNode({}), sourceProblem: { sentence: 'a reason', isDenied } })
      const found = all.filter(({ check }) => names.includes(check))
      assert.deepEqual(
        found.map((each) => each.status),
        [isDenied ? 'unknown' : 'broken', 'unknown', 'unknown', 'unknown'],
      )
      assert.match(
        found[1]?.seen ?? '',
        /^the API server gives no answer to this: the finding api-server says why$/,
      )
    })

  it('name the right to read ServiceCIDRs where the server has them and the mode uses them', async () => {
    const denied = { denied: 'servicecidrs' }
    assert.equal((await findings(server({}, denied)))[1]?.status, 'ok')
    const [, rbac, more] = await findings(server({}, { ...denied, cidrs: true }))
    assert.equal(rbac?.status, 'warning')
    assert.equal(rbac.seen, 'the API server does not allow: list networking.k8s.io/servicecidrs')
    assert.equal(more?.seen, 'the API server does not allow: watch networking.k8s.io/servicecidrs')
  })
})
