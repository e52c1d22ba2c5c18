// The pages of the control socket: /v1/NAME?PARAMETER=VALUE, GET only.
import { ConfigError } from '../errors.js'
import { explain, type Inspected, status } from '../inspect/index.js'
import { json, type Page, type PageRequest, type Pages, type Reply } from '../server/index.js'

/** Makes the snapshot. ConfigError: a parameter is wrong. undefined: the requested object is not known. */
type Question = (query: URLSearchParams) => unknown

/** The pages by path. A wrong parameter gets the reply 400, an unknown object 404, both with `error`: one sentence. */
export function controlPages(inspected: Inspected): Pages {
  const questions: Readonly<Record<string, Question>> = {
    status: async () => await status(inspected),
    explain: async (query) =>
      await explain(inspected, {
        client: query.get('client') ?? '',
        destination: query.get('destination') ?? '',
        inInterface: query.get('interface') ?? undefined,
      }),
  }
  return new Map(Object.entries(questions).map(([name, question]) => [`/v1/${name}`, page(question)]))
}

function page(question: Question): Page {
  return async ({ method, query }: PageRequest): Promise<Reply> => {
    if (method !== 'GET') return json({ error: `${method} is not supported: only GET` }, 405)
    try {
      const value = await question(query)
      return value === undefined ? json({ error: 'no such object' }, 404) : json(value)
    } catch (error) {
      if (error instanceof ConfigError) return json({ error: error.message }, 400)
      throw error
    }
  }
}
