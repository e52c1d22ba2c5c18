// Requests a page of an agent from inside its network namespace.
import assert from 'node:assert/strict'
import type { Namespace } from './namespaces.js'
import type { Program } from './processes.js'

/** Prints status and body as JSON. */
const question = `const [url, method, body] = process.argv.slice(1)
fetch(url, { method, body: body || undefined })
  .then(async (reply) => console.log(JSON.stringify([reply.status, await reply.text()])))`

/** Waits until the agent has logged that its server listens, which it does at -v 2 and above. */
export async function serverListens(agent: Program, name: 'healthz' | 'metrics'): Promise<void> {
  await agent.line((line) => line.includes(`"${name} server listens"`))
}

/** Status and body of the page. Throws if no server listens. */
export async function askInNamespace(
  node: Namespace,
  url: string,
  { method = 'GET', body = '' } = {},
): Promise<readonly [number, string]> {
  const printed: unknown = JSON.parse(await node.must(process.execPath, '-e', question, url, method, body))
  assert.ok(Array.isArray(printed))
  return [Number(printed[0]), String(printed[1])]
}
