// Program: the agent on a folder of manifests, in ipvs mode, shown step by step for people. Needs IP_VS, root, and a network
// namespace of its own.
import { cp, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { release, tmpdir } from 'node:os'
import { join } from 'node:path'
import { Trace, traced } from '../support/system-call-trace.js'
import { treeRoot } from '../support/tree.js'
import { AgentProcess, agentCommand } from './agent-process.js'
import { check, quote, say, sinceMs, title } from './demo-output.js'
import { virtualServers } from './node-state.js'
import { buildShopLab, tcp, type ShopLab } from './shop-lab.js'
import { sessionsPort, shopPorts, shopTable } from './shop-services.js'

/** The file in which a not-ready endpoint of `web` becomes ready. */
const editedFile = 'web.yaml'
const before = '{ ready: false, serving: false'
const afterwards = '{ ready: true, serving: true'
/** 10.244.1.13:8080 and :8443 as /proc/net/ip_vs writes them. */
const newServers = ['0AF4010D:1F90', '0AF4010D:20FB']
const limitMs = 60_000

async function startAgent(lab: ShopLab, manifests: string, trace: string): Promise<AgentProcess> {
  const started = performance.now()
  const agent = AgentProcess.start({ node: lab.node, manifests, before: traced(trace) })
  await agent.synced()
  say(`the agent runs, first sync complete ${sinceMs(started)} after its start`)
  return agent
}

async function showRequests(lab: ShopLab): Promise<void> {
  for (const { name, target, backends } of [...shopPorts, sessionsPort]) {
    const where = `${target.protocol} ${target.address} port ${target.port}`
    const answering = await lab.client.backends(target, 2 * backends.length)
    check(
      answering.every((backend) => backends.includes(backend)),
      `only ready backends answer for ${name}`,
    )
    say(`  ${name.padEnd(24)} ${where.padEnd(30)} answered by ${answering.join(', ')}`)
  }
}

/** Reads the node's table without starting a process, so that the time is the agent's. */
async function untilInKernel(lab: ShopLab, servers: readonly string[]): Promise<void> {
  const limit = performance.now() + limitMs
  for (;;) {
    const table = await readFile(`/proc/${lab.node.pid}/net/ip_vs`, 'utf8')
    if (servers.every((server) => table.includes(server))) return
    check(performance.now() < limit, `${servers.join(' and ')} are in the kernel`)
  }
}

async function showEdit(lab: ShopLab, shop: string, trace: Trace): Promise<void> {
  const path = join(shop, editedFile)
  const text = (await readFile(path, 'utf8')).replace(before, afterwards)
  await writeFile(`${shop}.edited`, text)
  await trace.takeWrites()
  const started = performance.now()
  await rename(`${shop}.edited`, path)
  await untilInKernel(lab, newServers)
  say(
    `in the kernel ${sinceMs(started)} after the file was replaced (traced by strace, which takes part of this time)`,
  )
  const added = (await virtualServers(lab.node)).filter((line) => !shopTable.includes(line))
  for (const line of added) say(`  + ${line}`)
  say(`requests that changed the kernel: ${JSON.stringify(await trace.takeWrites())}`)
}

async function showRestart(lab: ShopLab, shop: string, agent: AgentProcess): Promise<AgentProcess> {
  const table = await virtualServers(lab.node)
  const { code, tookMs } = await agent.terminate()
  say(`SIGTERM: ended with ${code ?? 'a signal'} after ${Math.round(tookMs)} ms`)
  const answering = await lab.client.backends(tcp('10.96.0.20', 80), 6)
  check(answering.length === 3, 'traffic goes on without an agent')
  say(`while no agent runs, tcp 10.96.0.20 port 80 is answered by ${answering.join(', ')}`)
  const file = `${shop}.second.trace`
  const second = await startAgent(lab, shop, file)
  const writes = await new Trace(file).takeWrites()
  say(
    `requests that changed the kernel: ${Object.keys(writes).length === 0 ? 'none' : JSON.stringify(writes)}`,
  )
  check((await virtualServers(lab.node)).join('\n') === table.join('\n'), 'a restart changes nothing')
  return second
}

async function show(lab: ShopLab, shop: string): Promise<void> {
  const command = 'node dist/agent.js --manifests examples/shop --proxy-mode ipvs --hostname-override node-a'
  title(`1. ${command}`)
  const file = `${shop}.trace`
  const agent = await startAgent(lab, shop, file)
  say('the kernel holds (ipvsadm -Ln):')
  quote(await lab.node.must('ipvsadm', '-Ln'))

  title('2. A client in its own network namespace sends requests to the virtual IPs')
  await showRequests(lab)

  title(`3. ${editedFile} is edited: endpoint 10.244.1.13 becomes ready`)
  await showEdit(lab, shop, new Trace(file))

  title('4. The agent stops and starts again')
  const second = await showRestart(lab, shop, agent)
  await second.terminate()

  title('5. --cleanup')
  await lab.node.must(...agentCommand('--cleanup'))
  const left = await virtualServers(lab.node)
  check(left.length === 0, 'nothing is left')
  say('the table is empty again')
}

async function main(): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'viaduct-demo-'))
  const started = performance.now()
  say(`From YAML to answered requests, in ipvs mode on Linux ${release()}, Node ${process.version}`)
  const lab = await buildShopLab()
  try {
    const shop = join(folder, 'shop')
    await cp(join(treeRoot, 'examples/shop'), shop, { recursive: true })
    say(`three network namespaces: a client, node-a, and every pod of examples/shop (${sinceMs(started)})`)
    await show(lab, shop)
    say(`\ndone in ${sinceMs(started)}`)
  } finally {
    await lab.close()
    await rm(folder, { recursive: true })
  }
}

await main()
