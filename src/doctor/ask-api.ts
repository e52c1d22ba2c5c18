// The answers of the API server to the doctor.
import { ApiError, type ApiReply } from '../api/index.js'
import type { Examined, Verdict } from './check.js'

type Asked = Pick<Examined, 'api' | 'sourceProblem'>

/** The answer about the Node, or the verdict of a check that needs it. */
export async function nodeAnswer(node: Asked): Promise<ApiReply | Verdict> {
  const answer = await anyAnswer(node)
  return 'seen' in answer || isOfApi(answer) ? answer : unasked
}

/** The same, of any status: also of a server that does not accept the credentials. */
export async function anyAnswer({ api, sourceProblem }: Asked): Promise<ApiReply | Verdict> {
  if (sourceProblem !== undefined) return unasked
  if (api === undefined) return noServer
  return (await orNothing(api.node())) ?? unasked
}

/** undefined: no answer. */
export async function orNothing(asked: Promise<ApiReply>): Promise<ApiReply | undefined> {
  return await asked.catch((error: unknown) => {
    if (error instanceof ApiError) return undefined
    throw error
  })
}

/** The verdict of each check of the API server where there is none. */
export const noServer: Verdict = { status: 'ok', seen: 'manifests are the source' }

const unasked: Verdict = {
  status: 'unknown',
  seen: 'the API server gives no answer to this: the finding api-server says why',
  cause: 'Without an answer of the API server this check cannot be made.',
  remedy: 'Solve the problem of api-server, and run the doctor again.',
}

/** Whether a Kubernetes API server answers, and accepts the credentials. It answers each question about a Node with a Node or a Status. */
export function isOfApi({ status, body }: Pick<ApiReply, 'status' | 'body'>): boolean {
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
