// The shipped agent as a process: signals, uncaught errors, and messages to the service manager. It runs in iptables mode in its own
// namespace, with its Node and without Services.
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { Namespace } from '../support/namespaces.js'
import type { Program } from '../support/processes.js'
import { treeRoot } from '../support/tree.js'

const agentFile = join(treeRoot, 'dist/agent.js')

/** A program that receives datagrams on a Unix socket and prints one per line. */
const receiver =
  '$| = 1; socket(S, AF_UNIX, SOCK_DGRAM, 0); bind(S, sockaddr_un($ARGV[0])) or die $!; print "bound\\n"; while (defined recv(S, $_, 4096, 0)) { print "$_\\n" }'

describe('the process', { timeout: 60_000 }, () => {
  let folder: string
  let manifests: string
  let node: Namespace

  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'viaduct-process-'))
    manifests = join(folder, 'manifests')
    mkdirSync(manifests)
    // The agent waits 10 s for the files of an empty folder: it may be a mount that is not there yet.
    writeFileSync(
      join(manifests, 'node.json'),
      JSON.stringify({ apiVersion: 'v1', kind: 'Node', metadata: { name: 'node-a' } }),
    )
    node = await Namespace.create('node')
  })

  after(async () => {
    await node.close()
    rmSync(folder, { recursive: true })
  })

  function own(): readonly string[] {
    return ['--manifests', manifests, '--proxy-mode', 'iptables', '--hostname-override', 'node-a']
  }

  async function started(...environment: readonly string[]): Promise<Program> {
    const agent = node.start('env', ...environment, process.execPath, agentFile, ...own())
    await agent.line((line) => line.includes('viaduct starts'))
    return agent
  }

  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
    it(`${signal} ends it with a clean stop`, async () => {
      const agent = await started()
      agent.signal(signal)
      const { code, stdout } = await agent.ended
      assert.equal(code, 0)
      assert.match(stdout, new RegExp(`"signal":"${signal}".*the kernel keeps its state`))
    })
  }

  for (const { verbosity, expected } of [
    { verbosity: '0', expected: [] },
    { verbosity: '1', expected: [{ 'proxy-mode': 'iptables', v: '1', 'bind-address-hard-fail': 'false' }] },
  ]) {
    it(`-v=${verbosity} ${expected.length === 0 ? 'does not show' : 'shows first'} its flags`, async () => {
      const agent = node.start(process.execPath, agentFile, ...own(), `-v=${verbosity}`)
      await agent.line((line) => line.includes('viaduct starts'))
      agent.signal('SIGTERM')
      await agent.ended
      const names = ['manifests', 'proxy-mode', 'v', 'bind-address-hard-fail']
      const logged = agent.lines.flatMap((line, at) => {
        const { msg, flags } = JSON.parse(line)
        return msg === 'Flags'
          ? [{ at, flags: Object.fromEntries(names.map((name) => [name, flags[name]])) }]
          : []
      })
      assert.deepEqual(
        logged,
        expected.map((flags) => ({ at: 0, flags: { manifests, ...flags } })),
      )
    })
  }

  for (const { what, flags, code, words } of [
    { what: 'an unknown flag', flags: ['--no-such-flag'], code: 2, words: /--no-such-flag/ },
    {
      what: 'a bad duration',
      flags: ['--ipvs-sync-period', 'soon'],
      code: 2,
      words: /ipvs-sync-period.*soon|soon.*ipvs-sync-period/i,
    },
    { what: 'a bad choice', flags: ['--vip-binding', 'sometimes'], code: 2, words: /vip-binding/i },
  ]) {
    it(`${what} ends it with ${code} and one sentence`, async () => {
      const ended = await node.run(process.execPath, agentFile, ...own(), ...flags)
      assert.equal(ended.code, code, ended.stdout)
      const sentences = ended.stderr.split('\n').filter((line) => line !== '')
      assert.equal(sentences.length, 1, ended.stderr)
      assert.match(sentences[0] ?? '', words)
    })
  }

  it('SIGUSR2 toggles trace logging; SIGUSR1 opens no debugger', async () => {
    const agent = await started()
    agent.signal('SIGUSR1')
    for (const v of [4, 0, 4]) {
      const from = agent.lines.length
      agent.signal('SIGUSR2')
      const line = await agent.line((text) => text.includes('Log verbosity changed'), from)
      assert.match(line, new RegExp(`"v":${v},`))
    }
    agent.signal('SIGTERM')
    const { code, stderr } = await agent.ended
    assert.deepEqual({ code, stderr }, { code: 0, stderr: '' })
  })

  it('writes its configuration with --write-config-to, or logs why it cannot, and ends', async () => {
    const written = join(folder, 'written.yaml')
    const cases = [
      { path: written, code: 0, stderr: /^$/u },
      {
        path: join(folder, 'absent/written.yaml'),
        code: 1,
        stderr: /^viaduct: .*absent.*cannot be written.*ENOENT.*\n$/u,
      },
    ]
    for (const { path, code, stderr } of cases) {
      const ended = await node.start(process.execPath, agentFile, ...own(), '--write-config-to', path).ended
      assert.deepEqual([ended.code, ended.stdout], [code, ''])
      assert.match(ended.stderr, stderr)
    }
    assert.match(readFileSync(written, 'utf8'), /^kind: KubeProxyConfiguration$/mu)
  })

  it('accepts the file of an old ConfigMap, and logs its settings without effect once', async () => {
    const file = join(folder, 'old.yaml')
    const fields = [
      'mode: iptables',
      'portRange: ""',
      'udpIdleTimeout: 250ms',
      'resourceContainer: /kube-proxy',
      'featureGates: {NoGate: true}',
    ]
    const head = ['apiVersion: kubeproxy.config.k8s.io/v1alpha1', 'kind: KubeProxyConfiguration']
    writeFileSync(file, [...head, ...fields, 'mode: iptables', ''].join('\n'))
    const command = [process.execPath, agentFile, '--config', file, '--manifests', manifests]
    const agent = node.start(...command)
    await agent.line((line) => line.includes('viaduct starts'))
    agent.signal('SIGTERM')
    const { code, stdout } = await agent.ended
    assert.equal(code, 0)
    const sentence =
      'parts of the configuration file have no effect: mode: is written twice (line 8); resourceContainer: is not a field of KubeProxyConfiguration'
    const gates = 'unknown feature gates have no effect: NoGate'
    for (const warning of [sentence, gates])
      assert.equal(stdout.split(`"msg":"${warning}"`).length, 2, stdout)
    const strict = await node.start(...command, '--strict-config').ended
    assert.equal(strict.code, 2)
    assert.match(
      strict.stderr,
      /^viaduct: .*old\.yaml: mode: is written twice \(line 8\); resourceContainer: /u,
    )
    const writing = await node.start(...command, '--write-config-to', join(folder, 'old-written.yaml')).ended
    assert.deepEqual([writing.code, writing.stderr], [0, `viaduct: ${sentence}\nviaduct: ${gates}\n`])
  })

  it('notifies the service manager: READY after the first sync, WATCHDOG, and STOPPING', async () => {
    const socket = join(folder, 'notify')
    const manager = node.start('perl', '-MSocket', '-e', receiver, socket)
    await manager.line((line) => line === 'bound')
    const agent = await started(`NOTIFY_SOCKET=${socket}`, 'WATCHDOG_USEC=200000')
    await manager.line((line) => line === 'READY=1')
    await manager.line((line) => line === 'WATCHDOG=1', manager.lines.length)
    agent.signal('SIGTERM')
    await manager.line((line) => line === 'STOPPING=1')
    assert.equal((await agent.ended).code, 0)
    manager.signal('SIGTERM')
    await manager.ended
  })

  it('notifies READY only when commands reach it', async () => {
    const socket = join(folder, 'notify-control')
    const control = join(folder, 'control.sock')
    const manager = node.start('perl', '-MSocket', '-e', receiver, socket)
    await manager.line((line) => line === 'bound')
    // Before the fix, READY came first, and the servers began to listen after it.
    const agent = node.start(
      'env',
      `NOTIFY_SOCKET=${socket}`,
      process.execPath,
      agentFile,
      ...own(),
      `--control-socket=${control}`,
    )
    await manager.line((line) => line === 'READY=1')
    assert.ok(statSync(control).isSocket())
    agent.signal('SIGTERM')
    assert.equal((await agent.ended).code, 0)
    manager.signal('SIGTERM')
    await manager.ended
  })

  it('stops on an uncaught error, and logs the error', async () => {
    const socket = join(folder, 'notify-crash')
    const manager = node.start('perl', '-MSocket', '-e', receiver, socket)
    await manager.line((line) => line === 'bound')
    const hook = join(folder, 'hook.cjs')
    const raise = "process.on('SIGWINCH', () => void Promise.reject(new Error('no handler caught this')))"
    writeFileSync(hook, raise)
    const agent = await started(`NOTIFY_SOCKET=${socket}`, `NODE_OPTIONS=--require=${hook}`)
    await manager.line((line) => line === 'READY=1')
    agent.signal('SIGWINCH')
    const { code, stdout, stderr } = await agent.ended
    assert.equal(code, 1)
    assert.match(stdout, /no handler caught this.*"msg":"Uncaught error: the agent ends"/u)
    assert.match(stderr, /^viaduct: Error: no handler caught this\n\s+at /u)
    await manager.line((line) => line === 'STOPPING=1')
    manager.signal('SIGTERM')
    await manager.ended
  })

  it('starts and runs on while its log is on a full disk, and then says how many lines are missing', async () => {
    // Before the fix, the start ended with exit code 1, and a running agent with 7: write ENOSPC.
    const socket = join(folder, 'notify-full')
    const manager = node.start('perl', '-MSocket', '-e', receiver, socket)
    await manager.line((line) => line === 'bound')
    const disk = join(folder, 'disk')
    mkdirSync(disk)
    const script = [
      `mount -t tmpfs -o size=64k none ${disk}`,
      `! cat /dev/zero > ${disk}/filler 2>&1`,
      `exec "$@" > ${disk}/log 2>&1`,
    ].join(' && ')
    const withDisk = ['env', `NOTIFY_SOCKET=${socket}`, 'unshare', '--mount', 'sh', '-c', script, 'sh']
    const agent = node.start(...withDisk, process.execPath, agentFile, ...own())
    await manager.line((line) => line === 'READY=1')
    const seen = `/proc/${agent.pid}/root${disk}`
    assert.equal(readFileSync(`${seen}/log`, 'utf8'), '')
    rmSync(`${seen}/filler`)
    agent.signal('SIGUSR2') // writes a line
    const log = node.start('tail', '-n', '+1', '-f', `${seen}/log`)
    const report = await log.line((line) => line.includes('Log is written again'))
    assert.match(
      report,
      /"level":"warn",.*"err":"ENOSPC: no space left on device, write",.*Log is written again: \d+ lines were dropped"/u,
    )
    agent.signal('SIGTERM')
    await log.line((line) => line.includes('the kernel keeps its state'))
    assert.equal((await agent.ended).code, 0)
    for (const program of [log, manager]) {
      program.signal('SIGTERM')
      await program.ended
    }
  })

  it('has the configured OOM score (F-106)', async () => {
    // A process may raise its score without privileges.
    const score = ['--oom-score-adj', '321']
    const agent = node.start(process.execPath, agentFile, ...own(), ...score)
    await agent.line((line) => line.includes('viaduct starts'))
    assert.equal(readFileSync(`/proc/${agent.pid}/oom_score_adj`, 'utf8').trim(), '321')
    agent.signal('SIGTERM')
    assert.equal((await agent.ended).code, 0)
  })

  it('logs once that the service manager does not answer, and continues', async () => {
    const agent = await started(`NOTIFY_SOCKET=${join(folder, 'absent')}`, 'WATCHDOG_USEC=20000')
    await agent.line((line) => line.includes('Service manager notification failed'))
    agent.signal('SIGTERM')
    const { code, stdout } = await agent.ended
    assert.equal(code, 0)
    assert.equal(stdout.split('Service manager notification failed').length, 2)
  })
})
