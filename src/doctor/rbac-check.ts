// The rights of the agent at the API server.
import { field, jsonOf, nodeAnswer, orNothing } from './ask-api.js'
import { type ApiAnswers, type Check, type Examined, problemsOr, type Verdict } from './check.js'

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

export const rbacCheck: Check = {
  name: 'rbac',
  looksAt: 'a SelfSubjectAccessReview for each verb and resource that the agent uses',
  run: async (node) => {
    const answer = await nodeAnswer(node)
    if ('seen' in answer) return [answer]
    const { api, modes } = node
    return api === undefined ? [] : await reviewAll(api, modes)
  },
}

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
