import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type AgentStatus } from '../../../src/doctor/index.js'
import { checks } from '../../../src/doctor/testing.js'
import { examinedNode } from '../../support/examined-node.js'

const family = { family: 'IPv4', isHealthy: true, lastSync: '2026-01-01T00:00:00Z' }
const fine: AgentStatus = {
  version: '1',
  commit: 'a',
  isInForce: true,
  families: [family],
  problemCount: 0,
  problems: [],
}

const cases: readonly {
  readonly what: string
  readonly status: AgentStatus
  readonly found: readonly (readonly [status: string, seen: RegExp])[]
}[] = [
  {
    what: 'in sync',
    status: fine,
    found: [['ok', /^version 1 \(commit a\) answers on .*last sync: IPv4 2026/]],
  },
  { what: 'starting', status: { ...fine, isInForce: false }, found: [['warning', /agent starts/]] },
  {
    what: 'late',
    status: {
      ...fine,
      families: [
        { ...family, isHealthy: false },
        { ...family, family: 'IPv6' },
      ],
    },
    found: [['broken', /events of IPv4 wait/]],
  },
  {
    what: 'with problems',
    status: { ...fine, problemCount: 3, problems: [{ problem: 'Programming failed' }] },
    found: [
      ['warning', /^the agent reports: Programming failed$/],
      ['warning', /^the agent reports 2 more problems$/],
    ],
  },
  {
    what: 'of another version',
    status: { ...fine, version: '2' },
    found: [['warning', /version 2 \(commit a\), this command 1 \(commit a\)/]],
  },
  {
    what: 'of another commit',
    status: { ...fine, commit: 'b' },
    found: [['warning', /version 1 \(commit b\), this command 1 \(commit a\)/]],
  },
  {
    what: 'older than the field for the commit',
    status: { ...fine, commit: undefined },
    found: [['warning', /version 1 \(commit unknown\), this command 1 \(commit a\)/]],
  },
]

describe('the check of a running agent', () => {
  for (const { what, status, found } of cases) {
    it(`of one that is ${what}`, async () => {
      const node = examinedNode({})
      const check = checks.find(({ name }) => name === 'agent')
      const verdicts = (await check?.run({ ...node, agent: { ...node.agent, status } })) ?? []
      assert.deepEqual(
        verdicts.map((verdict) => verdict.status),
        found.map(([each]) => each),
      )
      for (const [index, [, seen]] of found.entries()) assert.match(verdicts[index]?.seen ?? '', seen)
    })
  }

  const commands = [
    { command: '/usr/bin/node /opt/viaduct/dist/agent.js --config /etc/viaduct.yaml', isAgent: true },
    { command: '/usr/local/bin/node --max-old-space-size=200 dist/agent.js', isAgent: true },
    { command: '/usr/bin/node --require ./x.js --max-old-space-size 512 dist/agent.js -v=2', isAgent: true },
    { command: 'viaduct --proxy-mode=ipvs ', isAgent: true },
    { command: '/usr/bin/node /usr/bin/viaduct doctor --all', isAgent: false },
    { command: 'vim /etc/default/viaduct ', isAgent: false },
  ]
  for (const { command, isAgent } of commands)
    it(`without a socket: ${command}`, async () => {
      const node = { ...examinedNode({}), processes: [{ pid: 7, name: 'node', command }] }
      const check = checks.find(({ name }) => name === 'agent')
      const [verdict] = (await check?.run(node)) ?? []
      assert.equal(
        verdict?.seen,
        isAgent
          ? 'an agent runs (pid 7), and there is no /no/socket'
          : 'no agent runs: there is no /no/socket',
      )
      assert.equal(verdict.status, isAgent ? 'warning' : 'ok')
    })
})

it('an agent with a blank control socket is ok', async () => {
  const command = '/usr/bin/node dist/agent.js --control-socket= -v=2'
  const node = { ...examinedNode({}), processes: [{ pid: 7, name: 'node', command }] }
  const check = checks.find(({ name }) => name === 'agent')
  const [verdict] = (await check?.run(node)) ?? []
  assert.deepEqual(verdict, { status: 'ok', seen: 'an agent runs (pid 7), without a control socket' })
})

it('the ports of an agent whose processes are hidden are its own', async () => {
  const socket = '   0: 0100007F:2810 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0'
  const node = { ...examinedNode({ '/proc/net/tcp': `  sl\n${socket}\n` }), canAskSockets: false }
  const check = checks.find(({ name }) => name === 'server-ports')
  const [stranger] = (await check?.run(node)) ?? []
  assert.equal(stranger?.status, 'broken')
  const [own] = (await check?.run({ ...node, agent: { ...node.agent, status: fine } })) ?? []
  assert.equal(own?.status, 'ok')
})
