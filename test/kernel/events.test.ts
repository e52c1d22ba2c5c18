// The shipped agent sends Events to an API server, in iptables mode on this machine's kernel.
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { join } from 'node:path'
import { apiNode, apiService, apiSlice } from '../support/api-documents.js'
import { documentOf, type Document } from '../support/api-shapes.js'
import { Namespace } from '../support/namespaces.js'
import { askInNamespace, serverListens } from '../support/page-question.js'
import { takePort } from '../support/port-taker.js'
import type { Program } from '../support/processes.js'
import { treeRoot } from '../support/tree.js'

const agentFile = join(treeRoot, 'dist/agent.js')
const serverFile = join(treeRoot, 'out/ts/test/support/fake-api-program.js')
const port = 8001
/** Another program has it. */
const takenPort = 8002

/** The fields of an Event that the tests compare. */
function gist(event: Document): Document {
  const { type, reason, action, regarding, note, series } = event
  return { type, reason, action, regarding, note, ...(series === undefined ? {} : { series }) }
}

function agentCommand(...flags: readonly string[]): readonly [string, ...string[]] {
  const master = `http://127.0.0.1:${port}`
  const own = ['--master', master, '--proxy-mode', 'iptables', '--hostname-override', 'node-a', '-v', '2']
  return [process.execPath, agentFile, ...own, ...flags]
}

describe('the agent sends an Event', { timeout: 60_000 }, () => {
  let node: Namespace
  let server: Program

  before(async () => {
    node = await Namespace.create('node')
    await takePort({ family: 'ipv4', protocol: 'tcp', address: undefined, port: takenPort }, node)
    server = node.start(process.execPath, serverFile, String(port))
    const ports = [{ name: 'http', protocol: 'TCP', port: 80, nodePort: 30080 }]
    const balanced = {
      type: 'LoadBalancer',
      externalTrafficPolicy: 'Local',
      healthCheckNodePort: takenPort,
      ports,
    }
    await send('put', 'Node', apiNode('node-a'))
    await send('put', 'Service', apiService('web', '10.96.0.10', balanced))
    await send('put', 'EndpointSlice', apiSlice('web-1', 'web', ['10.1.0.1']))
    await send('listen')
  })

  after(async () => {
    await node.close()
  })

  async function send(...command: readonly unknown[]): Promise<void> {
    const line = JSON.stringify(command)
    const from = server.lines.length
    server.write(`${line}\n`)
    await server.line((text) => text === line, from)
  }

  function startAgent(...flags: readonly string[]): Program {
    return node.start(...agentCommand(...flags))
  }

  async function ask(path: string): Promise<string> {
    const [status, body] = await askInNamespace(node, `http://127.0.0.1:10249${path}`)
    assert.equal(status, 200)
    return body
  }

  async function eventOf(reason: string, from = 0): Promise<Document> {
    const isIt = (line: string): boolean => line.startsWith('["event"') && line.includes(`"${reason}"`)
    const parsed: unknown = JSON.parse(await server.line(isIt, from))
    return Array.isArray(parsed) ? documentOf(parsed[1]) : {}
  }

  async function defaultModeReports(...flags: readonly string[]): Promise<readonly number[]> {
    const from = server.lines.length
    const agent = startAgent('--proxy-mode', '', ...flags)
    await eventOf('Starting', from)
    await agent.line((line) => line.includes('"Sync done"'), 0)
    agent.signal('SIGTERM')
    const { stdout } = await agent.ended
    const events = server.lines.slice(from).filter((line) => line.includes('"KubeProxyDefaultMode"'))
    return [stdout.match(/"msg":"mode is unset and means iptables; /gu)?.length ?? 0, events.length]
  }

  const service = { apiVersion: 'v1', kind: 'Service', namespace: 'default', name: 'web' }
  let agent: Program

  it('when it starts', async () => {
    agent = startAgent()
    const event = await eventOf('Starting')
    assert.deepEqual(gist(event), {
      type: 'Normal',
      reason: 'Starting',
      action: 'StartKubeProxy',
      regarding: { apiVersion: 'v1', kind: 'Node', name: 'node-a' },
      note: '',
    })
    assert.equal(event['reportingController'], 'kube-proxy')
    assert.equal(event['reportingInstance'], 'kube-proxy-node-a')
  })

  it('when it cannot open the health check of a Service', async () => {
    assert.deepEqual(gist(await eventOf('FailedToStartServiceHealthcheck')), {
      type: 'Warning',
      reason: 'FailedToStartServiceHealthcheck',
      action: 'Listen',
      regarding: service,
      note: `node node-a failed to start healthcheck "default/web" on port ${takenPort}: listen EADDRINUSE: address already in use 0.0.0.0:${takenPort}`,
    })
  })

  it('when another program has a node port', async () => {
    const other = await takePort({ family: 'ipv4', protocol: 'udp', address: undefined, port: 30053 }, node)
    const ports = [{ name: 'dns', protocol: 'UDP', port: 53, nodePort: 30053 }]
    await send('put', 'Service', apiService('dns', '10.96.0.11', { type: 'NodePort', ports }))
    assert.deepEqual(gist(await eventOf('ServicePortInUse')), {
      type: 'Warning',
      reason: 'ServicePortInUse',
      action: 'Sync',
      regarding: { ...service, name: 'dns' },
      note: `default/dns:dns/UDP: udp *:30053 belongs to python3, process ${other?.pid ?? 0}, with the socket udp *:30053; the Service is served all the same`,
    })
  })

  it('once when a Service loses its frontend to another Service', async () => {
    await send('put', 'Service', apiService('awaits', '10.96.0.10'))
    assert.deepEqual(gist(await eventOf('FrontendConflict')), {
      type: 'Warning',
      reason: 'FrontendConflict',
      action: 'Sync',
      regarding: service,
      note: 'Service port default/web:http/TCP: tcp 10.96.0.10:80 already belongs to default/awaits:http/TCP, which sorts first',
    })
    const from = agent.lines.length
    await send('put', 'EndpointSlice', apiSlice('awaits-1', 'awaits', ['10.1.0.2']))
    await agent.line((line) => line.includes('"Sync done"'), from)
    agent.signal('SIGTERM')
    const { code, stdout } = await agent.ended
    assert.equal(code, 0)
    assert.equal(stdout.match(/"reason":"FrontendConflict"/gu)?.length, 1)
    assert.ok(!stdout.includes('Events are not sent'), stdout)
  })

  it('once when nothing sets its mode', async () => {
    assert.deepEqual(await defaultModeReports(), [1, 1])
  })

  it('when it runs in another mode than the configured one, which its pages also show', async () => {
    const from = server.lines.length
    // This machine's kernel has no IP_VS.
    const other = startAgent('--proxy-mode', 'ipvs')
    const note =
      'iptables mode in the flavour nft runs instead: ipvs mode in the flavour nft cannot run here: this kernel has no IP_VS: ' +
      'run a kernel that has it (ipvs: find generic netlink family IPVS: ENOENT)'
    assert.deepEqual(gist(await eventOf('ProxyModeFallback', from)), {
      type: 'Warning',
      reason: 'ProxyModeFallback',
      action: 'StartKubeProxy',
      regarding: { apiVersion: 'v1', kind: 'Node', name: 'node-a' },
      note,
    })
    await serverListens(other, 'metrics')
    assert.equal(await ask('/proxyMode'), 'iptables')
    assert.match(await ask('/metrics'), /^viaduct_proxy_mode\{mode="iptables",configured="ipvs"\} 1$/mu)
    other.signal('SIGTERM')
    const { code, stdout } = await other.ended
    assert.equal(code, 0)
    const message = JSON.stringify(`Proxy mode falls back: ${note}`)
    assert.equal(stdout.split(`"msg":${message}`).length, 2, stdout)
  })

  it('when it cannot set limits of connection tracking because /sys is read-only', async () => {
    const from = server.lines.length
    const remount = 'mount -o remount,bind,ro /sys && exec "$@"'
    // A network namespace that is not the initial one can never set the limit.
    const command = agentCommand('--conntrack-min', '1000001')
    const limited = node.start('unshare', '--mount', 'sh', '-c', remount, 'sh', ...command)
    assert.deepEqual(gist(await eventOf('readOnlySysFS', from)), {
      type: 'Warning',
      reason: 'readOnlySysFS',
      action: 'StartKubeProxy',
      regarding: { apiVersion: 'v1', kind: 'Node', name: 'node-a' },
      note:
        'CRI error: /sys is read-only: cannot modify conntrack limits, problems may arise later ' +
        '(If running Docker, see docker issue #24000)',
    })
    limited.signal('SIGTERM')
    assert.equal((await limited.ended).code, 0)
  })

  for (const [name, flag, reason] of [
    ['healthz', '--healthz-bind-address', 'FailedToStartProxierHealthcheck'],
    ['metrics', '--metrics-bind-address', 'FailedToStartMetricServer'],
  ] as const) {
    it(`before it ends because the ${name} server cannot listen`, async () => {
      const from = server.lines.length
      const ending = startAgent('--bind-address-hard-fail', flag, `127.0.0.1:${port}`)
      const { code, stderr } = await ending.ended
      assert.equal(code, 1, stderr)
      assert.deepEqual(gist(await eventOf(reason, from)), {
        type: 'Warning',
        reason,
        action: 'StartKubeProxy',
        regarding: { apiVersion: 'v1', kind: 'Node', name: 'node-a' },
        note: `listen EADDRINUSE: address already in use 127.0.0.1:${port}`,
      })
    })
  }
})
