// Commands that meet an agent of another version. Older agents: their recorded replies, which scripts/upgrade/record-replies.mjs makes,
// whole and with each part removed or changed in turn. Older commands: what they read must still be in the replies of this version.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { AgentClient, CommandError, runCommand } from '../../../src/commands/index.js'
import { knownOf, type Shape, snapshotShapes } from '../../../src/commands/shapes.js'
import { controlApi, controlHeaders } from '../../../src/control-socket.js'
import { buildText, commit, version } from '../../../src/version.js'
import { treeFiles, treeText } from '../../support/tree.js'

interface StoredReply {
  readonly code: number
  readonly api?: number
  readonly body: string
}

interface Stored {
  readonly commit: string
  readonly date: string
  /** By page and parameters. */
  readonly replies: Readonly<Record<string, StoredReply>>
}

const folder = 'test/support/control-replies'
const stored = treeFiles(new RegExp(`^${folder}/[0-9a-f]+\\.json$`, 'u')).map((path): Stored =>
  JSON.parse(treeText(path)),
)

interface Reply {
  readonly code: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

const own = buildText({ version, commit })
const ownHeaders = { [controlHeaders.api]: String(controlApi), [controlHeaders.build]: own }

/** An agent that answers with stored replies. */
class StoredAgent {
  readonly path = join(mkdtempSync(join(tmpdir(), 'viaduct-versions-')), 'agent.sock')
  /** By page and parameters, or by the page alone. */
  replies: Readonly<Record<string, Reply>> = {}
  readonly #server: Server

  constructor() {
    this.#server = createServer((socket) => {
      socket.on('error', () => undefined)
      socket.on('data', (data) => {
        const target = decodeURIComponent(data.toString().split(' ')[1] ?? '').replace('/v1/', '')
        const reply = this.replies[target] ?? this.replies[target.replace(/\?.*/u, '')]
        const { code, headers, body } = reply ?? { code: 404, headers: {}, body: '404 page not found\n' }
        const fields = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
        socket.end(`HTTP/1.1 ${code} X\r\n${fields.join('')}\r\n${body}`)
      })
    })
  }

  async start(): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#server.listen(this.path, resolve)
    })
  }

  stop(): void {
    this.#server.close()
    rmSync(join(this.path, '..'), { recursive: true })
  }

  /** Runs a command. Rejects if it throws anything, as a TypeError. */
  async run(words: string): Promise<{ readonly code: number; readonly out: string; readonly err: string }> {
    let [out, err] = ['', '']
    const io = {
      out: (text: string | Buffer) => void (out += String(text)),
      err: (text: string) => void (err += text),
    }
    const code = await runCommand([...words.split(' '), `--socket=${this.path}`], io)
    return { code, out, err }
  }
}

const agent = new StoredAgent()
before(async () => await agent.start())
after(() => agent.stop())

function repliesOf({ replies }: Stored): Readonly<Record<string, Reply>> {
  const entries = Object.entries(replies).map(([page, { code, api, body }]) => {
    const headers = api === undefined ? {} : { [controlHeaders.api]: String(api) }
    return [page, { code, headers, body }] as const
  })
  return Object.fromEntries(entries)
}

/** Each command, and the page that it asks. */
const asking: readonly (readonly [words: string, page: string])[] = [
  ['status', 'status'],
  ['history', 'history'],
  ['connections', 'connections'],
  ['explain 10.244.1.10 10.96.0.10:80', 'explain?client=10.244.1.10&destination=10.96.0.10:80'],
  ['explain node 10.96.0.11:80/tcp', 'explain?client=node&destination=10.96.0.11:80/tcp'],
]
const lists: readonly (readonly [words: string, page: string])[] = [
  ['services', 'services'],
  ['endpoints', 'endpoints'],
  ['routes', 'routes'],
  ['routes default/web', 'routes?service=default/web'],
]

const restart = (seen: string): string =>
  `viaduct: the agent is ${seen}, this command is ${own}: restart the agent`

const olderSentence = new RegExp(
  `^viaduct: the agent is 0\\.2\\.0 \\(commit [^)]+\\), this command is [^:]+: restart the agent`,
  'u',
)

it('the stored replies name no folder of the recording, which has another name each time', () => {
  for (const { commit: name, replies } of stored)
    assert.doesNotMatch(JSON.stringify(replies), /\/tmp\//u, name)
})

describe('commands at an older agent', () => {
  for (const each of stored) {
    const { commit: name, date } = each
    const old = repliesOf(each)
    const isOlder = old['status']?.headers[controlHeaders.api] !== String(controlApi)
    for (const [words, page] of [...asking, ...lists])
      for (const output of ['table', 'json', 'yaml'])
        it(`of ${date}, ${name.slice(0, 8)}: ${words} -o ${output}`, async () => {
          agent.replies = old
          const { code, out, err } = await agent.run(`${words} -o ${output}`)
          if (isOlder) assert.match(err, olderSentence)
          // An agent before the tables of lists: the sentence says what it does not know.
          const isUnknown = output === 'table' && lists.some(([known]) => known === words)
          if (isUnknown && code === 3) return assert.match(err, /; it does not know \/v1\/tables\/\w+\n$/u)
          assert.equal(code, 0, err)
          assert.equal(err.split('\n').length, isOlder ? 2 : 1, err)
          if (output === 'json') assert.deepEqual(JSON.parse(out), JSON.parse(old[page]?.body ?? ''))
        })
  }

  it('that does not know the page: one sentence and code 3', async () => {
    agent.replies = { status: { code: 200, headers: {}, body: '{"version":"0.1.0"}' } }
    const { code, out, err } = await agent.run('connections')
    const sentence = `${restart('0.1.0 (commit unknown)')}; it does not know /v1/connections\n`
    assert.deepEqual({ code, out, err }, { code: 3, out: '', err: sentence })
  })
})

it('a command at a newer agent names the remedy, and shows what it understands', async () => {
  const headers = { [controlHeaders.api]: String(controlApi + 1), [controlHeaders.build]: '9.0.0 (commit b)' }
  agent.replies = {
    connections: { code: 200, headers, body: '{"connections":[{"client":"a","new":1}],"total":3}' },
  }
  const { code, out, err } = await agent.run('connections')
  assert.equal(code, 0)
  assert.match(
    err,
    /^viaduct: the agent is 9\.0\.0 \(commit b\), this command is .*: run the command of the agent's version; until then, - stands for what its replies lack\n$/u,
  )
  assert.match(out, /^- +a +- +- +- +-$/mu)
  assert.match(out, /^2 more connections/mu)
})

/** Each value that differs from this one in one place: without it, with null, with another type. */
function* mutationsOf(value: unknown): Generator {
  for (const other of [null, 7, 'x', [], { x: 7 }]) yield other
  if (typeof value !== 'object' || value === null) return
  // Of a list, one item is as good as all.
  const changing = Object.entries(value).slice(0, Array.isArray(value) ? 1 : undefined)
  for (const [key, part] of changing) {
    const rest = Object.entries(value).filter(([name]) => name !== key)
    if (Array.isArray(value)) yield rest.map(([, item]: [string, unknown]) => item)
    else yield Object.fromEntries(rest)
    for (const changed of mutationsOf(part)) {
      const entries = Object.entries(value).map(([name, item]: [string, unknown]) => [
        name,
        name === key ? changed : item,
      ])
      yield Array.isArray(value) ? entries.map(([, item]) => item) : Object.fromEntries(entries)
    }
  }
}

describe('no reply makes a command throw', () => {
  const [newest] = stored.toSorted((one, other) => (one.date < other.date ? 1 : -1))
  for (const [words, page] of [...asking, ...lists.slice(-1)])
    it(`with each part removed or changed: ${words}`, async () => {
      const body: unknown = JSON.parse(newest?.replies[page]?.body ?? '')
      const table = { code: 200, headers: ownHeaders, body: 'A\n1\n\0' }
      let count = 0
      for (const changed of mutationsOf(body)) {
        const reply = { code: 200, headers: ownHeaders, body: JSON.stringify(changed) }
        agent.replies = { [page]: reply, 'tables/routes': table }
        const { code, err } = await agent.run(words)
        const what = `${JSON.stringify(changed)}: ${err}`
        assert.ok(code === 0 || (code === 1 && words.startsWith('explain')), what)
        assert.doesNotMatch(err, /undefined|TypeError/u, what)
        count++
      }
      assert.ok(count > 20)
    })

  it('and what a part needs is an error in words', async () => {
    agent.replies = { configuration: { code: 200, headers: ownHeaders, body: '{"mode":"ipvs"}' } }
    await assert.rejects(
      new AgentClient(agent.path).askWhole('configuration'),
      (error) =>
        error instanceof CommandError &&
        error.exitCode === 3 &&
        error.message.endsWith(': restart the agent; the reply to /v1/configuration lacks node, documents'),
    )
  })
})

/** The paths of a value that a shape does not have, or has with another type. */
function unknownTo(value: unknown, shape: Shape, path: string): readonly string[] {
  if (typeof shape === 'string' || typeof value !== 'object' || value === null)
    return typeof value === shape ? [] : [path]
  return Object.entries(value).flatMap(([name, part]: [string, unknown]) => {
    const field = 'fields' in shape ? shape.fields[name] : 'list' in shape ? shape.list : shape.each
    const inner = typeof field === 'object' && 'optional' in field ? field.optional : field
    const at = `${path}.${'list' in shape ? '*' : name}`
    return inner === undefined ? [at] : unknownTo(part, inner, at)
  })
}

describe('older commands at this agent', () => {
  for (const { commit: name, date, replies } of stored)
    it(`of ${date}, ${name.slice(0, 8)}: this version still sends each field that they may read`, () => {
      const shapes = new Map<string, Shape>(Object.entries(snapshotShapes))
      const gone = Object.entries(replies).flatMap(([page, { code, body }]) => {
        const shape = shapes.get(page.replace(/\?.*/u, ''))
        return shape === undefined || code !== 200 ? [] : unknownTo(JSON.parse(body), shape, page)
      })
      assert.deepEqual([...new Set(gone)], [])
    })

  it('know the shapes of this number of the control API: a change of a shape is a new number', () => {
    const path = `${folder}/shapes-of-number-${controlApi}.json`
    assert.deepEqual(JSON.parse(JSON.stringify(snapshotShapes)), JSON.parse(treeText(path)), path)
  })
})

it('the parts of a value that have a shape, and the paths of the missing ones', () => {
  const shape: Shape = {
    fields: {
      a: 'string',
      b: { optional: 'number' },
      c: { list: { fields: { d: 'boolean' } } },
      e: { each: 'string' },
    },
  }
  const missing: string[] = []
  const value = { a: 1, c: [{ d: true }, { d: 'no' }, null], e: { x: 'y', z: 1 }, more: 1 }
  assert.deepEqual(knownOf(value, shape, missing), { c: [{ d: true }, {}], e: { x: 'y' } })
  assert.deepEqual(missing, ['a', 'c.1.d', 'c.2', 'e.z'])
  assert.equal(knownOf([], shape, missing), undefined)
})
