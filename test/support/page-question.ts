// Asks an agent for a page from inside its network namespace.
import assert from 'node:assert/strict'
import type { Namespace } from './namespaces.js'

/** Prints status and body as JSON; the server may need a while to open, but not ten seconds. */
const question = `const [url, method, body] = process.argv.slice(1)
const ask = async (tries) => {
  try {
    return await fetch(url, { method, body: body || undefined })
  } catch (error) {
    if (tries === 0) throw error
    await new Promise((resolve) => setTimeout(resolve, 100))
    return await ask(tries - 1)
  }
}
ask(100).then(async (reply) => console.log(JSON.stringify([reply.status, await reply.text()])))`

/** Status and body of the page. */
export async function askInNamespace(
  node: Namespace,
  url: string,
  { method = 'GET', body = '' } = {},
): Promise<readonly [number, string]> {
  const printed: unknown = JSON.parse(await node.must(process.execPath, '-e', question, url, method, body))
  assert.ok(Array.isArray(printed))
  return [Number(printed[0]), String(printed[1])]
}
