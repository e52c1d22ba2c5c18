import type { Namespace } from '../../test/support/namespaces.js'

/** The metrics of the program in the place: the agent, or a kube-proxy. */
export async function scrape(place: Namespace): Promise<string> {
  const ask = "fetch('http://127.0.0.1:10249/metrics').then((answer) => answer.text()).then(console.log)"
  return await place.must(process.execPath, '-e', ask)
}
