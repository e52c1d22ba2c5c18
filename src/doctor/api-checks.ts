// The API server: name, connection, credentials, rights, this node's object, and the clock.
import { ApiError, type ApiReply } from '../api/index.js'
import type { ApiAnswers } from './ask-api.js'
import { nameProblem } from './ask-api.js'
import { type Check, ok, problemsOr, type Verdict } from './check.js'

const mostSkewMs = 5000
const slowMs = 1000

/** The agent's requests to the API server. `optional`: the agent works without this right, but not its feature. */
const rights = [
  ...['services', 'nodes'].flatMap((resource) => [
    { verb: 'list', group: '', resource },
    { verb: 'watch', group: '', resource },
  ]),
  { verb: 'list', group: 'discovery.k8s.io', resource: 'endpointslices' },
  { verb: 'watch', group: 'discovery.k8s.io', resource: 'endpointslices' },
  { verb: 'create', group: 'events.k8s.io', resource: 'events', optional: 'Events' },
  { verb: 'patch', group: 'events.k8s.io', resource: 'events', optional: 'Events' },
] as const satisfies readonly {
  readonly verb: string
  readonly group: string
  readonly resource: string
  readonly optional?: string
}[]

const noServer = 'manifests are the source'

export const apiChecks: readonly Check[] = [
  {
    name: 'api-server',
    looksAt: 'the name, the connection, TLS and the credentials of the API server, and the time of an answer',
    run: async ({ api, nodeName, sourceProblem }) => {
      if (sourceProblem !== undefined) return withoutSource(sourceProblem)
      return api === undefined ? ok(noServer) : await reach(api, nodeName)
    },
  },
  {
    name: 'rbac',
    looksAt: 'a SelfSubjectAccessReview for each verb and resource that the agent uses',
    run: async ({ api }) => (api === undefined ? ok(noServer) : await reviewAll(api)),
  },
  {
    name: 'node-object',
    looksAt: 'the Node object of this node',
    run: async ({ api, nodeName }) => {
      if (api === undefined) return ok(noServer)
      const { status } = await askNode(api, nodeName)
      if (status !== 404) return status === 200 ? ok(`Node ${nodeName} exists`) : unknown(`status ${status}`)
      return [
        {
          status: 'broken',
          seen: `the API server has no Node ${nodeName}`,
          cause: 'The agent does not know its addresses, its zone and the networks of its pods.',
          remedy: 'Set --hostname-override to the name that kubectl get nodes shows.',
        },
      ]
    },
  },
  {
    name: 'clock',
    looksAt: 'the difference between the clocks of this node and the API server',
    run: async ({ api, nodeName }) => {
      if (api === undefined) return ok(noServer)
      const { skewMs } = await askNode(api, nodeName)
      if (skewMs === undefined) return unknown('the answer has no header Date')
      if (Math.abs(skewMs) <= mostSkewMs) return ok('the clocks agree within 5 s')
      return [
        {
          status: 'warning',
          seen: `this clock is ${Math.round(Math.abs(skewMs) / 1000)} s ${skewMs > 0 ? 'ahead of' : 'behind'} the API server's`,
          cause: 'Certificates and tokens may count as expired or not yet valid.',
          remedy: 'Synchronize the clock: timedatectl set-ntp true, or chrony.',
        },
      ]
    },
  },
]

const askNode = async (api: ApiAnswers, name: string): Promise<ApiReply> =>
  await api.ask('GET', `/api/v1/nodes/${encodeURIComponent(name)}`)

function withoutSource(seen: string): readonly Verdict[] {
  const cause = 'The agent ends at its start, because it has no source of Services.'
  return [{ status: 'broken', seen, cause, remedy: 'Correct --kubeconfig, --master or --manifests.' }]
}

function unknown(seen: string): readonly Verdict[] {
  return [
    {
      status: 'unknown',
      seen,
      cause: 'The answer of the API server does not tell.',
      remedy: 'Solve the other problems, and run the doctor again.',
    },
  ]
}

async function reach(api: ApiAnswers, nodeName: string): Promise<readonly Verdict[]> {
  const broken = (seen: string, remedy: string): readonly Verdict[] => [
    { status: 'broken', seen, cause: `The agent gets no Services from ${api.server.origin}.`, remedy },
  ]
  const name = await nameProblem(api)
  if (name !== undefined)
    return broken(
      `the name ${api.server.hostname} has no address: ${name}`,
      'Correct the server in the kubeconfig or --master, or the DNS of the node.',
    )
  try {
    const { status, tookMs } = await askNode(api, nodeName)
    if (status === 401)
      return broken(
        'the API server refuses the credentials (401)',
        'Renew the token or the client certificate of the kubeconfig or of the service account.',
      )
    if (tookMs > slowMs)
      return [
        {
          status: 'warning',
          seen: `an answer took ${Math.round(tookMs)} ms`,
          cause: 'Changes of Services reach this node late.',
          remedy: 'Look at the load of the API server and the network to it.',
        },
      ]
    return ok(`${api.server.origin} answers in ${Math.round(tookMs)} ms`)
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    return broken(
      error.message,
      'Check the address, the port, the firewall and the certificate authority of the kubeconfig or --master.',
    )
  }
}

async function reviewAll(api: ApiAnswers): Promise<readonly Verdict[]> {
  const found: Verdict[] = []
  for (const right of rights) {
    const isAllowed = await review(api, right)
    if (isAllowed === undefined) return unknown('the API server does not answer a SelfSubjectAccessReview')
    if (isAllowed) continue
    const object = `${right.verb} ${right.group === '' ? '' : `${right.group}/`}${right.resource}`
    found.push({
      status: 'optional' in right ? 'warning' : 'broken',
      seen: `the API server does not allow: ${object}`,
      cause:
        'optional' in right
          ? 'The agent cannot record Events.'
          : 'The agent never has all objects, and never starts to remove.',
      remedy:
        'Bind the ClusterRole system:node-proxier to the user of the agent (deploy/kubernetes/base/cluster-role-binding.yaml).',
    })
  }
  return problemsOr(found, 'every verb is allowed')
}

/** undefined: no review. */
async function review(
  api: ApiAnswers,
  { verb, group, resource }: (typeof rights)[number],
): Promise<boolean | undefined> {
  const { status, body } = await api.ask('POST', '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews', {
    apiVersion: 'authorization.k8s.io/v1',
    kind: 'SelfSubjectAccessReview',
    spec: { resourceAttributes: { verb, group, resource } },
  })
  if (status < 200 || status > 299) return undefined
  const value: unknown = JSON.parse(body)
  const answer: unknown = Reflect.get(Object(value), 'status')
  return Reflect.get(Object(answer), 'allowed') === true
}
