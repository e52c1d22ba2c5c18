// Outages of an API server: requests of the shipped agent during an outage, and the time until the first change after it.
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { apiNode, apiService, apiSlice } from '../../test/support/api-documents.js'
import type { Namespace } from '../../test/support/namespaces.js'
import type { Program } from '../../test/support/processes.js'
import { AgentRun } from '../stage/agent-run.js'
import { median, millisecondsBetween } from '../stage/figures.js'
import { Prober, serve, withPlace } from '../stage/place.js'
import { scrape } from './scrape.js'

const serverProgram = fileURLToPath(new URL('../../test/support/fake-api-program.js', import.meta.url))
const [address, port] = ['10.96.0.1', 6443]
const restMs = 3000

/** Starts a server with the state of the previous one and one change. `round` counts the changes from 1. */
async function startServer(place: Namespace, round: number): Promise<Program> {
  const server = place.start(process.execPath, serverProgram, String(port))
  const say = async (...command: readonly unknown[]): Promise<void> => {
    const line = JSON.stringify(command)
    server.write(`${line}\n`)
    await server.line((echo) => echo === line)
  }
  await say('put', 'Node', apiNode('node-a'))
  await say('put', 'Service', apiService('web', address))
  for (let i = 0; i <= round; i++)
    await say('put', 'EndpointSlice', apiSlice('web-1', 'web', [endpointOf(i)]))
  await say('listen')
  return server
}

function endpointOf(round: number): string {
  return `10.128.0.${round + 1}`
}

/** Requests of the agent so far, from its metrics, including unanswered ones. */
async function requests(place: Namespace): Promise<number> {
  const text = await scrape(place)
  const counts = [...text.matchAll(/^rest_client_requests_total\{.*\} (?<count>\d+)$/gmu)]
  if (counts.length === 0) throw new Error('the agent has no rest_client_requests_total')
  return counts.reduce((sum, { groups }) => sum + Number(groups?.['count']), 0)
}

/** `count` outages: times from the server's return to the first change in the kernel, and requests per second during an outage. */
export async function outageFigures(connect: string, seconds: number, count: number): Promise<unknown> {
  return await withPlace(async (place) => {
    await serve(place, connect)
    const prober = new Prober(place, connect, { tickUs: 1000, burst: 1 })
    const answered = (round: number): Promise<bigint> =>
      prober.answered({ address, port: 80, expected: endpointOf(round) })
    let server = await startServer(place, 0)
    const agent = new AgentRun(place, ['--master', `http://127.0.0.1:${port}`], { flags: ['-v', '2'] })
    await answered(0)
    const [times, rates]: [number[], number[]] = [[], []]
    for (let round = 1; round <= count; round++) {
      await sleep(restMs)
      await server.kill()
      const before = await requests(place)
      await sleep(seconds * 1000)
      rates.push(((await requests(place)) - before) / seconds)
      server = await startServer(place, round)
      const backNs = process.hrtime.bigint()
      times.push(millisecondsBetween(backNs, await answered(round)))
    }
    await agent.stop()
    return { medianMs: median(times), maxMs: Math.max(...times), perSecond: Math.max(...rates) }
  })
}
