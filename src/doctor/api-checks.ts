// The API server: name, connection, credentials, this node's object, and the clock.
import { ApiError, type ApiReply } from '../api/index.js'
import { anyAnswer, isOfApi, nodeAnswer, noServer } from './ask-api.js'
import { type ApiAnswers, asRoot, type Check, type Examined, ok, type Verdict } from './check.js'
import { rbacCheck } from './rbac-check.js'

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
  rbacCheck,
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
