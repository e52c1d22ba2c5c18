// Inserts and lists entries of the kernel's connection table with conntrack-tools, in this process's network namespace.
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ModelFlow } from '../model/index.js'
import { mustRun } from './processes.js'

/** The arguments of the tool for a protocol's state. */
const states = {
  udp: '-u SEEN_REPLY',
  tcp: '--state ESTABLISHED',
  sctp: '--state ESTABLISHED --orig-vtag 1 --reply-vtag 2',
} as const

/** The tool's arguments that insert the flow. `more`: further options, such as a zone. */
function insertion(flow: ModelFlow, more: string): string {
  const { protocol, source, sourcePort, destination, destinationPort, replySource, replySourcePort } = flow
  const original = `-s ${source} -d ${destination} --sport ${sourcePort} --dport ${destinationPort}`
  const reply = `-r ${replySource} -q ${source} --reply-port-src ${replySourcePort} --reply-port-dst ${sourcePort}`
  return `-I -p ${protocol} ${original} ${reply} -t 600 ${states[protocol]} ${more}\n`
}

/** Inserts all flows with one process: 100,000 take a second. NB: no two may have the same reply tuple. */
export async function insertFlows(flows: readonly ModelFlow[], more = ''): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'viaduct-flows-'))
  try {
    const file = join(folder, 'flows')
    await writeFile(file, flows.map((flow) => insertion(flow, more)).join(''))
    await mustRun(['conntrack', '--load-file', file])
  } finally {
    await rm(folder, { recursive: true })
  }
}

/** `udp 10.0.0.9:1000 -> 10.96.0.10:53 -> 10.244.1.5:53`: client, original destination, source of the replies. */
export function nameFlow(flow: ModelFlow): string {
  const { protocol, source, sourcePort, destination, destinationPort, replySource, replySourcePort } = flow
  const original = `${source} ${sourcePort} -> ${destination} ${destinationPort}`
  return `${protocol} ${original} -> ${replySource} ${replySourcePort}`
}

const entry =
  /^(udp|tcp|sctp) .*?src=(\S+) dst=(\S+) sport=(\d+) dport=(\d+) .*?src=(\S+) dst=\S+ sport=(\d+) /gm

/** Names of all entries of both families, sorted. */
export async function listFlows(): Promise<readonly string[]> {
  const names: string[] = []
  for (const family of ['ipv4', 'ipv6']) {
    const text = await mustRun(['conntrack', '--dump', '--family', family])
    for (const [
      ,
      protocol,
      source,
      destination,
      sourcePort,
      destinationPort,
      answering,
      port,
    ] of text.matchAll(entry))
      names.push(
        `${protocol} ${source} ${sourcePort} -> ${destination} ${destinationPort} -> ${answering} ${port}`,
      )
  }
  return names.toSorted()
}

export async function countFlows(): Promise<number> {
  return Number(await mustRun(['conntrack', '--count']))
}

/** Empties the table of this process's network namespace. */
export async function flushFlows(): Promise<void> {
  await mustRun(['conntrack', '--flush'])
}
