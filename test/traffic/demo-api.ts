// Program: the agent on an API server (a fake one, by TLS and a kubeconfig), in iptables mode, shown step by step for people. Needs the legacy
// tables, root, and a network namespace of its own.
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { release, tmpdir } from 'node:os'
import { join } from 'node:path'
import { apiNode, apiService, apiSlice } from '../support/api-documents.js'
import { makeCertificate } from '../support/certificates.js'
import type { Program } from '../support/processes.js'
import type { Target } from '../support/traffic.js'
import { treeRoot } from '../support/tree.js'
import { check, quote, say, sinceMs, title } from './demo-output.js'
import { buildShopLab, tcp, type ShopLab } from './shop-lab.js'

const port = 6443
const agentFile = join(treeRoot, 'dist/agent.js')
const web = tcp('10.96.0.20', 80)
const search = tcp('10.96.0.60', 80)
const limitSeconds = 60
/** Service, EndpointSlice and Node. */
const watchedKinds = 3

/** A process whose store a test fills by lines on its standard input; see fake-api-program.ts. */
class ApiServer {
  readonly #program: Program

  constructor(lab: ShopLab, options: string) {
    const program = join(treeRoot, 'out/ts/test/support/fake-api-program.js')
    this.#program = lab.node.start(process.execPath, program, String(port), options)
  }

  /** Resolves when it has done so. */
  async send(...command: readonly unknown[]): Promise<void> {
    const line = JSON.stringify(command)
    const from = this.#program.lines.length
    this.#program.write(`${line}\n`)
    await this.#program.line((text) => text === line, from)
  }

  async die(): Promise<void> {
    await this.#program.kill()
  }
}

/** The EndpointSlice of Service web, with 10.244.1.x for each of `last`. */
function webPods(...last: readonly number[]): unknown {
  const addresses = last.map((number) => `10.244.1.${number}`)
  return apiSlice('web-1', 'web', addresses)
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64')
}

interface Access {
  /** The options of the server: see fake-api-program.ts. */
  readonly options: string
  readonly kubeconfig: string
  readonly controlSocket: string
}

/** The server's certificate is its own authority, and so is the client's. */
async function writeAccess(folder: string): Promise<Access> {
  const [certificate, client] = [makeCertificate(), makeCertificate('node-a')]
  const access = {
    options: join(folder, 'server.json'),
    kubeconfig: join(folder, 'kubeconfig'),
    controlSocket: join(folder, 'viaduct.sock'),
  }
  await writeFile(access.options, JSON.stringify({ certificate, clientAuthorities: [client.cert] }))
  const cluster = {
    server: `https://127.0.0.1:${port}`,
    'certificate-authority-data': base64(certificate.cert),
  }
  const user = { 'client-certificate-data': base64(client.cert), 'client-key-data': base64(client.key) }
  const document = {
    'current-context': 'shop',
    contexts: [{ name: 'shop', context: { cluster: 'shop', user: 'node-a' } }],
    clusters: [{ name: 'shop', cluster }],
    users: [{ name: 'node-a', user }],
  }
  await writeFile(access.kubeconfig, JSON.stringify(document))
  return access
}

async function startAgent(lab: ShopLab, { kubeconfig, controlSocket }: Access): Promise<Program> {
  const started = performance.now()
  const flags = [
    '--kubeconfig',
    kubeconfig,
    '--proxy-mode',
    'iptables',
    '--iptables-flavour=legacy',
    `--control-socket=${controlSocket}`,
    '-v',
    '2',
  ]
  const agent = lab.node.start(process.execPath, agentFile, ...flags, '--hostname-override', 'node-a')
  for (const family of ['IPv4', 'IPv6'])
    await agent.line((line) => line.includes('"Sync done"') && line.includes(`"${family}"`))
  say(
    `the agent runs, and has listed everything and brought it into the kernel, ${sinceMs(started)} after its start`,
  )
  return agent
}

/** How long a change of the API takes to the kernel, as iptables-legacy-save sees it, which is asked again and again. */
async function inKernel(lab: ShopLab, text: string, change: () => Promise<void>): Promise<string> {
  const script = `echo asking; until iptables-legacy-save -t nat | grep -q -e '${text}'; do :; done; echo there`
  const reader = lab.node.start('timeout', String(limitSeconds), 'sh', '-c', script)
  await reader.line((line) => line === 'asking')
  const started = performance.now()
  await change()
  await reader.line((line) => line === 'there')
  return sinceMs(started)
}

async function showTraffic(lab: ShopLab, target: Target, expected: readonly string[]): Promise<void> {
  const counts = new Map<string, number>()
  const connections = 60
  for (let i = 0; i < connections; i++) {
    const result = await lab.client.probe(target)
    check(result.kind === 'answer', `${target.address} answers`)
    if (result.kind === 'answer') counts.set(result.from, (counts.get(result.from) ?? 0) + 1)
  }
  const answering = [...counts.keys()].toSorted()
  const shares = answering.map((from) => `${from}: ${counts.get(from)}`)
  say(
    `${connections} connections to ${target.address} port ${target.port} were answered by ${shares.join(', ')}`,
  )
  check(answering.join() === expected.join(), `${expected.join(', ')} answer, all and alone`)
}

async function rulesWith(lab: ShopLab, text: string): Promise<string> {
  const rules = (await lab.node.must('iptables-legacy-save', '-t', 'nat')).split('\n')
  return rules.filter((rule) => rule.includes(text)).join('\n')
}

/** The sentence of a line of the agent's log. */
async function sentence(agent: Program, start: string, from: number): Promise<string> {
  const line: unknown = JSON.parse(await agent.line((text) => text.includes(start), from))
  return String(Reflect.get(Object(line), 'msg'))
}

async function showCreation(lab: ShopLab, server: ApiServer): Promise<void> {
  const time = await inKernel(lab, 'to-destination 10.244.1.12:8080', async () => {
    await server.send('put', 'Service', apiService('web', web.address))
    await server.send('put', 'EndpointSlice', webPods(11, 12))
  })
  say(`in the kernel ${time} after the API changed; the rules of the Service (iptables-legacy-save -t nat):`)
  for (const part of ['--dport 80 ', '-A KUBE-SVC-']) quote(await rulesWith(lab, part))
  await showTraffic(lab, web, ['10.244.1.11 8080', '10.244.1.12 8080'])
  await server.send('put', 'Service', apiService('search', search.address))
  const searchPort = [{ name: 'http', protocol: 'TCP', port: 9200 }]
  const slice = { ...apiSlice('search-1', 'search', ['10.244.6.11']), ports: searchPort }
  await inKernel(lab, 'to-destination 10.244.6.11:9200', () => server.send('put', 'EndpointSlice', slice))
  await showTraffic(lab, search, ['10.244.6.11 9200'])
}

async function showEvent(lab: ShopLab, server: ApiServer): Promise<void> {
  const time = await inKernel(lab, 'to-destination 10.244.1.13:8080', () =>
    server.send('put', 'EndpointSlice', webPods(11, 12, 13)),
  )
  say(`in the kernel ${time} after the API changed`)
  await showTraffic(lab, web, ['10.244.1.11 8080', '10.244.1.12 8080', '10.244.1.13 8080'])
}

async function showOutage(lab: ShopLab, server: ApiServer, agent: Program): Promise<void> {
  const from = agent.lines.length
  await server.die()
  say('the agent says, once for each kind of object:')
  quote(await sentence(agent, 'API server cannot be watched', from))
  await showTraffic(lab, web, ['10.244.1.11 8080', '10.244.1.12 8080', '10.244.1.13 8080'])
  await showTraffic(lab, search, ['10.244.6.11 9200'])
}

/** A server of the same cluster, later: Service `search` was deleted while the agent was not connected. */
async function showReturn(lab: ShopLab, { options }: Access, agent: Program): Promise<void> {
  const from = agent.lines.length
  const server = new ApiServer(lab, options)
  await server.send('put', 'Node', apiNode('node-a'))
  await server.send('put', 'Service', apiService('web', web.address))
  await server.send('put', 'EndpointSlice', webPods(12, 13))
  // Versions beyond those that the agent has seen.
  for (let i = 0; i < 10; i++) await server.send('compact')
  const started = performance.now()
  await server.send('listen')
  const watched = (): number =>
    agent.lines.slice(from).filter((line) => line.includes('API server is watched now')).length
  await agent.line(() => watched() >= watchedKinds, from)
  quote(await sentence(agent, 'API server is watched now', from))
  for (const gone of ['default/search', '10.244.1.11']) {
    while ((await rulesWith(lab, gone)) !== '')
      check(performance.now() - started < limitSeconds * 1000, `${gone} leaves the kernel`)
  }
  say(`${sinceMs(started)} after the server listened again, no rule of either is left`)
  await showTraffic(lab, web, ['10.244.1.12 8080', '10.244.1.13 8080'])
  const { kind } = await lab.client.probe(search)
  check(kind !== 'answer', 'the deleted Service does not answer')
  say(`a connection to ${search.address} port ${search.port} gets no answer`)
}

/** Lines of one answer that the demo shows. `connections` has one for each of the requests above. */
const answerLines = 30

/** Questions to the agent. Its answers are right: a command that finds something wrong exits with 1, and ends the demo. */
async function showCommands(lab: ShopLab, { controlSocket }: Access): Promise<void> {
  const questions = [
    ['status'],
    ['services', 'default/web'],
    ['endpoints', 'default/web'],
    ['routes', 'default/web'],
    ['explain', '192.168.50.10', '10.96.0.20:80'],
    ['connections', 'default/web'],
    ['diff'],
    ['history'],
  ]
  for (const words of questions) {
    say(`\n$ viaduct ${words.join(' ')}`)
    const text = await lab.node.must(process.execPath, agentFile, ...words, '--socket', controlSocket)
    const lines = text.trimEnd().split('\n')
    quote(lines.slice(0, answerLines).join('\n'))
    if (lines.length > answerLines) quote(`(and ${lines.length - answerLines} more lines)`)
  }
  say('\nmore commands, such as plan, doctor and bundle: docs/commands.md, or viaduct help')
}

async function showEnd(lab: ShopLab, agent: Program): Promise<void> {
  agent.signal('SIGTERM')
  const { code } = await agent.ended
  say(`SIGTERM: ended with ${code ?? 'a signal'}`)
  await showTraffic(lab, web, ['10.244.1.12 8080', '10.244.1.13 8080'])
  await lab.node.must(process.execPath, agentFile, '--cleanup')
  check((await rulesWith(lab, 'KUBE-')) === '', 'nothing is left')
  say('--cleanup: no chain and no rule of ours is left')
}

async function show(lab: ShopLab, folder: string): Promise<void> {
  const access = await writeAccess(folder)
  const server = new ApiServer(lab, access.options)
  await server.send('put', 'Node', apiNode('node-a'))
  await server.send('listen')

  title('1. node dist/agent.js --kubeconfig kubeconfig --proxy-mode iptables --hostname-override node-a')
  const agent = await startAgent(lab, access)

  title('2. Services and EndpointSlices are created through the API')
  await showCreation(lab, server)

  title('3. An EndpointSlice changes: 10.244.1.13 becomes an endpoint of web')
  await showEvent(lab, server)

  title('4. The API server is killed: the kernel keeps its state')
  await showOutage(lab, server, agent)

  title('5. It comes back; meanwhile Service search was deleted, and 10.244.1.11 left web')
  await showReturn(lab, access, agent)

  title('6. A tour of the commands: what the agent says about itself')
  await showCommands(lab, access)

  title('7. The agent stops, then --cleanup')
  await showEnd(lab, agent)
}

async function main(): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'viaduct-demo-'))
  const started = performance.now()
  say(
    `From an API server to answered requests, in iptables mode on Linux ${release()}, Node ${process.version}`,
  )
  const lab = await buildShopLab()
  try {
    say(
      `three network namespaces: a client, node-a, and pods; a fake API server runs on node-a (${sinceMs(started)})`,
    )
    await show(lab, folder)
    say(`\ndone in ${sinceMs(started)}`)
  } finally {
    await lab.close()
    await rm(folder, { recursive: true })
  }
}

await main()
