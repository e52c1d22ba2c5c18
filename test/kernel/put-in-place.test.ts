// The commands of docs/installing.md that put the files in place, run while an agent has the former files mapped. The commands are taken
// from the page, with another root folder.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { appendFileSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { apiService, apiSlice } from '../support/api-documents.js'
import { Namespace } from '../support/namespaces.js'
import { mustRun, type Program } from '../support/processes.js'
import { treeRoot, treeText } from '../support/tree.js'

const page = treeText('docs/installing.md')

let folder: string
/** A working tree with a build. */
let tree: string
let builds = 0
let node: Namespace

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'viaduct-place-'))
  tree = join(folder, 'tree')
  for (const name of ['opt', 'tree', 'manifests']) mkdirSync(join(folder, name))
  cpSync(join(treeRoot, 'dist'), join(tree, 'dist'), { recursive: true, dereference: true })
  await mustRun(['git', 'init', '--quiet', tree])
  await buildAgain()
  put('web', '10.96.0.10')
  node = await Namespace.create('node')
  await node.ip('link add eth0 type veth peer name eth1', 'address add 192.0.2.7/24 dev eth0')
})

afterEach(async () => {
  await node.close()
  rmSync(folder, { recursive: true })
})

/** The commands of the page's block that begins with these words. */
function blockOf(start: string): string {
  const blocks = [...page.matchAll(/```sh\n(?<block>[^`]*)```/gu)].map(
    ({ groups }) => groups?.['block'] ?? '',
  )
  const block = blocks.find((each) => each.startsWith(start))
  assert.ok(block !== undefined, `docs/installing.md has a block that starts with ${start}`)
  return block
}

/** Runs commands of the page in the working tree of the test. */
async function follow(commands: string): Promise<void> {
  const script = commands.replaceAll('/opt', join(folder, 'opt'))
  await mustRun(['sh', '-ec', `cd ${tree}\n${script}`])
}

function put(name: string, address: string): void {
  const documents = [
    { apiVersion: 'v1', kind: 'Service', ...apiService(name, address) },
    {
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      ...apiSlice(`${name}-1`, name, ['10.1.0.1']),
    },
  ]
  writeFileSync(
    join(folder, `manifests/${name}.yaml`),
    documents.map((each) => JSON.stringify(each)).join('\n---\n'),
  )
}

function startAgent(agent: string): Program {
  const flags = ['--proxy-mode=nftables', '--conntrack-max-per-core=0', '--hostname-override=node-a', '-v=2']
  return node.start(process.execPath, agent, ...flags, '--manifests', join(folder, 'manifests'))
}

async function isInForce(agent: Program, address: string, from = 0): Promise<void> {
  await agent.line((line) => line.includes('"Sync done"') && line.includes('"IPv4"'), from)
  assert.match(await node.must('nft', 'list', 'table', 'ip', 'kube-proxy'), new RegExp(address, 'u'))
}

/** The addon that the process has mapped. A changed digest is a change under the process. */
function mappedAddon(pid: number): { readonly path: string; readonly digest: string } {
  const maps = readFileSync(`/proc/${pid}/maps`, 'utf8')
  const [, range, path] = /^(\S+) .* (\/\S+viaduct\.node)(?: \(deleted\))?$/mu.exec(maps) ?? []
  assert.ok(range !== undefined && path !== undefined)
  return { path, digest: digestOf(`/proc/${pid}/map_files/${range}`) }
}

function digestOf(file: string): string {
  return createHash('sha256').update(readFileSync(file)).digest('hex')
}

/** Makes a commit, and a build with an addon of its own: bytes behind the last section have no effect. */
async function buildAgain(): Promise<void> {
  const identity = ['-c', 'user.name=test', '-c', 'user.email=test@localhost']
  const message = `build ${++builds}`
  await mustRun(['git', '-C', tree, ...identity, 'commit', '--quiet', '--allow-empty', '-m', message])
  appendFileSync(join(tree, 'dist/viaduct.node'), message)
}

async function stop(agent: Program): Promise<void> {
  agent.signal('SIGTERM')
  assert.equal((await agent.ended).code, 0)
}

/** Changes a Service, which the agent programs: it lives. */
async function lives(agent: Program): Promise<void> {
  const from = agent.lines.length
  put('api', '10.96.0.11')
  await isInForce(agent, '10.96.0.11', from)
}

describe('files put in place while an agent runs', { timeout: 60_000 }, () => {
  it('in a folder for each build: the agent lives, and the next start runs the new files', async () => {
    // Before the fix, the page copied over the files that the agent had mapped: it ended by SIGSEGV or SIGBUS.
    const commands = blockOf('folder=')
    await follow(commands)
    const former = startAgent(join(folder, 'opt/viaduct/agent.js'))
    await isInForce(former, '10.96.0.10')
    const before = mappedAddon(former.pid)

    await buildAgain()
    await follow(commands)
    assert.deepEqual(mappedAddon(former.pid), before)
    await lives(former)
    await stop(former)

    const next = startAgent(join(folder, 'opt/viaduct/agent.js'))
    await isInForce(next, '10.96.0.11')
    assert.equal(mappedAddon(next.pid).digest, digestOf(join(tree, 'dist/viaduct.node')))
    await stop(next)
  })

  it('an addon for another processor: an agent that runs from dist/ lives', async () => {
    // Before the fix, `cp` wrote over the addon that the agent had mapped.
    const agent = startAgent(join(tree, 'dist/agent.js'))
    await isInForce(agent, '10.96.0.10')
    const before = mappedAddon(agent.pid)
    mkdirSync(join(tree, 'out/cross/arm64'), { recursive: true })
    writeFileSync(join(tree, 'out/cross/arm64/viaduct.node'), 'of another processor')
    const [, command = ''] = blockOf('npm ci').split('\n')
    await follow(command)
    assert.equal(readFileSync(join(tree, 'dist/viaduct.node'), 'utf8'), 'of another processor')
    assert.deepEqual(mappedAddon(agent.pid), before)
    await lives(agent)
    await stop(agent)
  })
})
