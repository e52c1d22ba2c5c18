// The API server: name, connection, credentials, this node's object, the clock, and the rights of the agent.
import { ApiError, type ApiReply } from '../api/index.js'
import { type ApiAnswers, asRoot, type Check, type Examined, ok, type Verdict, problemsOr } from './check.js'

const mostSkewMs = 5000
const slowMs = 1000

export const apiChecks: readonly Check[] = [
  {
    name: 'api-server',
    looksAt: 'the name, the connection, TLS and the credentials of the API server, and the time of an answer',
    run: async ({ api, sourceProblem }) => {
      if (sourceProblem !== undefined) return withoutSource(sourceProblem)
      return [api === undefined ? noServer : await reach(api)]
    },
  },
  {
    name: 'rbac',
    looksAt: 'a SelfSubjectAccessReview for each verb and resource that the agent uses',
    run: async (node) => {
      const answer = await nodeAnswer(node)
      if ('seen' in answer) return [answer]
      const { api, modes } = node
      return api === undefined ? [] : await reviewAll(api, modes)
    },
  },
  {
    name: 'node-object',
    looksAt: 'the Node object of this node',
    run: async (node) => {
      const answer = await nodeAnswer(node)
      if ('seen' in answer) return [answer]
      if (answer.status === 200) return ok(`Node ${node.nodeName} exists`)
      if (answer.status !== 404) return unknown(`status ${answer.status}`)
      return [
        {
          status: 'broken',
          seen: `the API server has no Node ${node.nodeName}`,
          cause: 'The agent does not know its addresses, its zone and the networks of its pods.',
          remedy: 'Set --hostname-override to the name that kubectl get nodes shows.',
        },
      ]
    },
  },
  {
    name: 'clock',
    looksAt: 'the difference between the clocks of this node and the API server',
    run: async (node) => {
      // A wrong clock may be the reason for which the server refuses the credentials.
      const answer = await anyAnswer(node)
      if ('seen' in answer) return [answer]
      const { skewMs } = answer
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

function withoutSource({
  sentence: seen,
  isDenied,
}: NonNullable<Examined['sourceProblem']>): readonly Verdict[] {
  if (isDenied)
    return [
      {
        status: 'unknown',
        seen,
        cause: 'This process is not permitted to read it, so the API server cannot be asked.',
        remedy: asRoot,
      },
    ]
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

async function reach({ server, node }: ApiAnswers): Promise<Verdict> {
  try {
    const reply = await node()
    return refusalOf(reply, server) ?? timeOf(reply, server)
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    return broken(
      error.message,
      server,
      error.code === 'credentials'
        ? 'Correct the credentials of the kubeconfig or of the service account: their files, or the command of exec.'
        : 'Check the server of the kubeconfig or --master: its name, its port, the firewall, its certificate (openssl s_client), and the clock of this node.',
    )
  }
}

function broken(seen: string, { origin }: URL, remedy: string): Verdict {
  return { status: 'broken', seen, cause: `The agent gets no Services from ${origin}.`, remedy }
}

/** undefined: the answer is one of an API server that accepts the credentials. */
function refusalOf(reply: ApiReply, server: URL): Verdict | undefined {
  const { status } = reply
  if (status === 401)
    return broken(
      'the API server refuses the credentials (401)',
      server,
      'Renew the token or the client certificate of the kubeconfig or of the service account.',
    )
  if (status === 429)
    return {
      status: 'warning',
      seen: 'the API server has too many requests (429)',
      cause: 'Changes of Services reach this node late.',
      remedy: 'Look at the load of the API server and at its priority levels (kubectl get flowschemas).',
    }
  if (status >= 500)
    return broken(
      `the API server, or a load balancer before the API server, answers with status ${status}`,
      server,
      'Look at the API server and its etcd: kubectl get --raw /readyz?verbose on a control plane.',
    )
  if (isOfApi(reply)) return undefined
  return broken(
    `the answer at ${server.origin} is not one of a Kubernetes API server (status ${status})`,
    server,
    'Correct the server of the kubeconfig or --master; a proxy on the way may answer in its place (HTTPS_PROXY, NO_PROXY).',
  )
}

function timeOf({ tookMs }: ApiReply, { origin }: URL): Verdict {
  const time = Math.round(tookMs)
  if (tookMs <= slowMs) return { status: 'ok', seen: `${origin} answers in ${time} ms` }
  return {
    status: 'warning',
    seen: `an answer took ${time} ms`,
    cause: 'Changes of Services reach this node late.',
    remedy: 'Look at the load of the API server and the network to it.',
  }
}

interface Right {
  readonly verb: string
  readonly group: string
  readonly resource: string
  /** The loss without this right; one sentence. Absent: the agent does not work. */
  readonly lack?: string
}

const following = ['list', 'watch'] as const

/** The agent's requests to the API server. */
const rights: readonly Right[] = [
  ...['services', 'nodes'].flatMap((resource) => following.map((verb) => ({ verb, group: '', resource }))),
  ...following.map((verb) => ({ verb, group: 'discovery.k8s.io', resource: 'endpointslices' })),
  ...['create', 'patch'].map((verb) => ({
    verb,
    group: 'events.k8s.io',
    resource: 'events',
    lack: 'The agent cannot record Events.',
  })),
]

/** Those of the modes that drop packets to unused cluster IPs. */
const cidrRights: readonly Right[] = following.map((verb) => ({
  verb,
  group: 'networking.k8s.io',
  resource: 'servicecidrs',
  lack: 'Packets to cluster IPs that no Service has are not dropped.',
}))

async function reviewAll(
  api: ApiAnswers,
  { chosen }: Pick<Examined['modes'], 'chosen'>,
): Promise<readonly Verdict[]> {
  const usesCidrs = chosen === 'nftables' || chosen === 'iptables (nft)'
  const wanted = usesCidrs && (await hasServiceCidrs(api)) ? [...rights, ...cidrRights] : rights
  // At once: an answer of a slow server may take seconds.
  const answers = await Promise.all(wanted.map(async (right) => await review(api, right)))
  const found = wanted.flatMap((right, index) => verdictOn(right, answers[index]))
  return problemsOr(found, 'every verb is allowed')
}

/** API servers before 1.33 have none, and their roles do not allow to read them. */
async function hasServiceCidrs(api: ApiAnswers): Promise<boolean> {
  const reply = await orNothing(api.ask('GET', '/apis/networking.k8s.io/v1'))
  const resources = field(jsonOf(reply?.body ?? ''), 'resources')
  return Array.isArray(resources) && resources.some((each) => field(each, 'name') === 'servicecidrs')
}

/** `isAllowed` undefined: no review. */
function verdictOn({ verb, group, resource, lack }: Right, isAllowed?: boolean): readonly Verdict[] {
  if (isAllowed === true) return []
  const object = `${verb} ${group === '' ? '' : `${group}/`}${resource}`
  if (isAllowed === undefined)
    return [
      {
        status: 'unknown',
        seen: `the API server does not answer the SelfSubjectAccessReview for: ${object}`,
        cause: 'It is not known whether the agent may do it.',
        remedy: 'Bind the ClusterRole system:basic-user to the user of the agent, and run the doctor again.',
      },
    ]
  return [
    {
      status: lack === undefined ? 'broken' : 'warning',
      seen: `the API server does not allow: ${object}`,
      cause: lack ?? 'The agent never has all objects, and never starts to remove.',
      remedy:
        'Bind the ClusterRole system:node-proxier to the user of the agent (deploy/kubernetes/base/cluster-role-binding.yaml).',
    },
  ]
}

/** undefined: no review. */
async function review(
  api: ApiAnswers,
  { verb, group, resource }: Pick<Right, 'verb' | 'group' | 'resource'>,
): Promise<boolean | undefined> {
  const reply = await orNothing(
    api.ask('POST', '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews', {
      apiVersion: 'authorization.k8s.io/v1',
      kind: 'SelfSubjectAccessReview',
      spec: { resourceAttributes: { verb, group, resource } },
    }),
  )
  if (reply === undefined || reply.status < 200 || reply.status > 299) return undefined
  return field(field(jsonOf(reply.body), 'status'), 'allowed') === true
}

type Asked = Pick<Examined, 'api' | 'sourceProblem'>

/** The answer about the Node, or the verdict of a check that needs it. */
export async function nodeAnswer(node: Asked): Promise<ApiReply | Verdict> {
  const answer = await anyAnswer(node)
  return 'seen' in answer || isOfApi(answer) ? answer : unasked
}

/** The same, of any status: also of a server that does not accept the credentials. */
async function anyAnswer({ api, sourceProblem }: Asked): Promise<ApiReply | Verdict> {
  if (sourceProblem !== undefined) return unasked
  if (api === undefined) return noServer
  return (await orNothing(api.node())) ?? unasked
}

/** undefined: no answer. */
async function orNothing(asked: Promise<ApiReply>): Promise<ApiReply | undefined> {
  return await asked.catch((error: unknown) => {
    if (error instanceof ApiError) return undefined
    throw error
  })
}

/** The verdict of each check of the API server where there is none. */
const noServer: Verdict = { status: 'ok', seen: 'manifests are the source' }

const unasked: Verdict = {
  status: 'unknown',
  seen: 'the API server gives no answer to this: the finding api-server says why',
  cause: 'Without an answer of the API server this check cannot be made.',
  remedy: 'Solve the problem of api-server, and run the doctor again.',
}

/** Whether a Kubernetes API server answers, and accepts the credentials. It answers each question about a Node with a Node or a Status. */
function isOfApi({ status, body }: Pick<ApiReply, 'status' | 'body'>): boolean {
  return [200, 403, 404].includes(status) && ['Node', 'Status'].includes(String(field(jsonOf(body), 'kind')))
}

/** undefined: the text is no JSON. */
export function jsonOf(body: string): unknown {
  try {
    return JSON.parse(body)
  } catch {
    return undefined
  }
}

/** A member of a JSON object; undefined: the value has no such member. */
export function field(value: unknown, name: string): unknown {
  return Reflect.get(Object(value), name)
}
