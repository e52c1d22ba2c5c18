// The commands of `viaduct`, as processes that ask the shipped agent, in iptables mode in its own namespace.
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { Namespace } from '../support/namespaces.js'
import { serverListens } from '../support/page-question.js'
import type { Program } from '../support/processes.js'
import { treeRoot } from '../support/tree.js'

const agentFile = join(treeRoot, 'dist/agent.js')

const manifests = `
apiVersion: v1
kind: Service
metadata: { name: web, namespace: default }
spec:
  type: NodePort
  clusterIP: 10.96.0.10
  ports: [{ name: http, port: 80, nodePort: 30080, protocol: TCP }]
---
apiVersion: v1
kind: Service
metadata: { name: empty, namespace: default }
spec: { clusterIP: 10.96.0.11, ports: [{ port: 80, protocol: TCP }] }
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: web-1, namespace: default, labels: { kubernetes.io/service-name: web } }
addressType: IPv4
ports: [{ name: http, port: 8080, protocol: TCP }]
endpoints:
  - { addresses: [192.0.2.1], conditions: { ready: true }, nodeName: node-a }
  - { addresses: [192.0.2.2], conditions: { ready: false }, nodeName: node-b }
`

interface Run {
  readonly status: number | null
  readonly stdout: string
  readonly stderr: string
}

function run(words: readonly string[]): Run {
  const { status, stdout, stderr } = spawnSync(process.execPath, [agentFile, ...words], {
    encoding: 'utf8',
  })
  return { status, stdout, stderr }
}

describe('the commands', { timeout: 120_000 }, () => {
  let folder: string
  let socket: string
  let node: Namespace
  let agent: Program

  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'viaduct-commands-'))
    // Users other than root reach the socket's folder.
    chmodSync(folder, 0o755)
    socket = join(folder, 'run', 'viaduct.sock')
    mkdirSync(join(folder, 'manifests'))
    writeFileSync(join(folder, 'manifests', 'all.yaml'), manifests)
    node = await Namespace.create('node')
    agent = startAgent(socket)
    await agent.line((line) => /Control socket listens/u.test(line))
    await agent.line((line) => line.includes('"Sync done"') && line.includes('"IPv4"'))
    await serverListens(agent, 'metrics')
  })

  after(async () => {
    await node.close()
    rmSync(folder, { recursive: true })
  })

  function startAgent(path: string): Program {
    const mode = [
      '--proxy-mode',
      'iptables',
      '--iptables-flavour=legacy',
      '--metrics-bind-address=127.0.0.1:10249',
    ]
    const own = ['--manifests', join(folder, 'manifests'), '--hostname-override', 'node-a', '-v', '2']
    return node.start(process.execPath, agentFile, ...mode, ...own, `--control-socket=${path}`)
  }

  function ask(...words: string[]): Run {
    return run([...words, `--socket=${socket}`])
  }

  function asJson(...words: string[]): unknown {
    const { status, stdout, stderr } = ask(...words, '-o', 'json')
    assert.deepEqual({ status, stderr }, { status: 0, stderr: '' })
    return JSON.parse(stdout)
  }

  it('leave a socket that only its owner can open', () => {
    assert.equal(statSync(socket).mode & 0o777, 0o600)
  })

  const tables: readonly (readonly [words: readonly string[], lines: readonly RegExp[]])[] = [
    [
      ['status'],
      [/^Node: +node-a$/m, /^Mode: +iptables \(flavour legacy\)$/m, /^IPv4 .* 2 +2$/m, /^Problems: none$/m],
    ],
    [
      ['services'],
      [
        /^default\/web:http\/TCP +10\.96\.0\.10:80 +30080 +- +1\/2 +0 +serve +serve +\d+s$/m,
        /^default\/empty:TCP +10\.96\.0\.11:80 +- +- +0\/0 +0 +refuse +- +\d+s$/m,
      ],
    ],
    [
      ['endpoints', 'default/web'],
      [
        /^default\/web:http\/TCP +192\.0\.2\.1:8080 +node-a +ready,serving +yes: ready +no: no traffic has policy Local$/m,
        /^default\/web:http\/TCP +192\.0\.2\.2:8080 +node-b +serving +no: not ready +no: /m,
      ],
    ],
    [
      ['routes', 'default/web'],
      [/tcp node port 30080 +serve +1 +node port; /m, /^Kernel objects:\n {2}\S/m],
    ],
    [['history'], [/^START .*\n.* IPv4 +start .* complete /m]],
  ]
  for (const [words, lines] of tables)
    it(`print a table of ${words.join(' ')}`, () => {
      const { status, stdout, stderr } = ask(...words)
      assert.deepEqual({ status, stderr }, { status: 0, stderr: '' })
      for (const line of lines) assert.match(stdout, line)
    })

  it('print JSON and YAML of the same value', () => {
    const value = asJson('services', 'default/web')
    const yaml = ask('services', 'default/web', '-o', 'yaml')
    assert.match(yaml.stdout, /^items:\n {2}- service: default\/web\n {4}port: http\n/)
    assert.deepEqual(Object(value).items[0].endpoints, { all: 2, cluster: 1, local: 0 })
    assert.match(Object(value).items[0].since, /^\d{4}-\d\d-\d\dT[\d:.]+Z$/)
  })

  const wrong: readonly (readonly [words: readonly string[], status: number, sentence: RegExp])[] = [
    [['statsu'], 2, /^viaduct: unknown command 'statsu'; did you mean status\?/],
    [['status', '-o', 'xml'], 2, /'xml' is invalid\. Allowed choices are table, json, yaml\./],
    [['status', 'more'], 2, /^viaduct: too many arguments/],
    [['completion', 'csh'], 2, /Allowed choices are bash, zsh, fish/],
    [['services', 'default/none'], 1, /^viaduct: no Service default\/none is known to this agent: /m],
    [['services', 'x'.repeat(5000)], 2, /^viaduct: service: must be NAMESPACE\/NAME, not "x{100}"$/m],
    [['status', '--socket=/nowhere/socket'], 3, /^viaduct: no agent listens on \/nowhere\/socket: /],
    [['status', '--socket=/etc/passwd'], 3, /^viaduct: /],
  ]
  for (const [words, status, sentence] of wrong)
    it(`refuse ${words.join(' ').slice(0, 40)} with code ${status}`, () => {
      const hasSocket = words.some((word) => word.startsWith('--socket')) || words[0] === 'completion'
      const result = hasSocket ? run(words) : ask(...words)
      assert.equal(result.status, status, result.stderr)
      assert.match(result.stderr, sentence)
      assert.equal(result.stdout, '')
    })

  for (const word of ['plan', 'diff', 'doctor', 'bundle'])
    it(`print the version for ${word} --version`, () => {
      const { status, stdout, stderr } = run([word, '--version'])
      assert.deepEqual({ status, stderr }, { status: 0, stderr: '' })
      assert.match(stdout, /^viaduct \d+\.\d+\.\d+ \(commit \S+\)\n$/)
    })

  const closed: readonly (readonly [pipe: 'stdout' | 'stderr', words: readonly string[]])[] = [
    ['stdout', ['services']],
    ['stdout', ['completion', 'bash']],
    ['stdout', ['doctor', '--version']],
    ['stdout', ['hand-over']],
    ['stderr', ['statsu']],
    ['stderr', ['bundle', '--file=-']],
    ['stderr', ['hand-over', 'more']],
  ]
  for (const [pipe, words] of closed)
    it(`end ${words.join(' ')} silently with code 141 when the reader of ${pipe} has closed the pipe`, async () => {
      const option = words[0] === 'services' ? [`--socket=${socket}`] : []
      const child = spawn(process.execPath, [agentFile, ...words, ...option])
      child[pipe].destroy()
      child.stdout.resume()
      const errors: Buffer[] = []
      child.stderr.on('data', (data: Buffer) => errors.push(data))
      const [code] = await once(child, 'close')
      assert.deepEqual([code, Buffer.concat(errors).toString()], [141, ''])
    })

  it('serve no process of another user, even if the mode of the file lets it in', () => {
    const otherUser = 65_534
    // The program's own files may be closed to others.
    const words = [
      '-e',
      `require('node:net').connect(process.argv[1]).on('connect', () => console.log('connected')).on('error', (error) => console.log(error.code)).on('close', () => console.log('closed')).end('GET /v1/status HTTP/1.0\\r\\n\\r\\n').on('data', () => console.log('data'))`,
    ]
    const asOtherUser = (): string =>
      spawnSync(process.execPath, [...words, socket], { encoding: 'utf8', uid: otherUser, cwd: '/' }).stdout
    assert.equal(asOtherUser(), 'EACCES\nclosed\n')
    chmodSync(socket, 0o666)
    assert.match(asOtherUser(), /^connected\n(?:E\w+\n)?closed\n$/)
    chmodSync(socket, 0o600)
  })

  it('get replies beside 100 connections and a client that never reads', async () => {
    const idle: Socket[] = Array.from({ length: 100 }, () => connect(socket).on('error', () => {}))
    await Promise.all(
      idle.map(
        async (connection) => await Promise.race([once(connection, 'connect'), once(connection, 'close')]),
      ),
    )
    const deaf = connect(socket).on('error', () => {})
    deaf.write('GET /v1/services HTTP/1.1\r\nHost: agent\r\n\r\n'.repeat(10))
    deaf.pause()
    const child = spawn(process.execPath, [agentFile, 'status', `--socket=${socket}`], { stdio: 'ignore' })
    const [code] = await once(child, 'exit')
    assert.equal(code, 0)
    for (const connection of [...idle, deaf]) connection.destroy()
  })

  it('leave the socket of a running agent to it, and replace that of a dead one', async () => {
    const other = await Namespace.create('other')
    const shared = join(folder, 'shared.sock')
    const start = (): Program =>
      other.start(
        process.execPath,
        agentFile,
        '--manifests',
        join(folder, 'manifests'),
        '--proxy-mode',
        'iptables',
        '--iptables-flavour=legacy',
        '-v',
        '2',
        `--control-socket=${shared}`,
      )
    try {
      const first = start()
      await first.line((line) => /Control socket listens/u.test(line))
      const second = start()
      await second.line((line) =>
        /Control socket is not available: .*another process listens there/u.test(line),
      )
      assert.equal(run(['status', `--socket=${shared}`]).status, 0)
      second.signal('SIGTERM')
      await second.ended
      await first.kill()
      assert.equal(run(['status', `--socket=${shared}`]).status, 3)
      await start().line((line) => /Control socket listens/u.test(line))
      assert.equal(run(['status', `--socket=${shared}`]).status, 0)
    } finally {
      await other.close()
    }
  })
})
