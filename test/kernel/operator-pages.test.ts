// The HTTP pages for operators of the shipped agent, in iptables mode in its own namespace.
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { Namespace } from '../support/namespaces.js'
import { askInNamespace, serverListens } from '../support/page-question.js'
import type { Program } from '../support/processes.js'
import { treeRoot, treeText } from '../support/tree.js'

/** A Service with one endpoint, an address of the node. */
const manifests = `
apiVersion: v1
kind: Service
metadata: { name: web, namespace: default }
spec:
  type: NodePort
  clusterIP: 10.96.0.10
  ports: [{ port: 80, nodePort: 30080, protocol: TCP }]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: web-1, namespace: default, labels: { kubernetes.io/service-name: web } }
addressType: IPv4
ports: [{ port: 8080, protocol: TCP }]
endpoints: [{ addresses: [192.0.2.1], conditions: { ready: true } }]
`

/** A server that answers every connection with `web` and closes it. */
const endpoint = `require('node:net').createServer((socket) => socket.end('web')).listen(8080, '192.0.2.1', () => console.log('listening'))`
/** A client that prints the answer of a port of 127.0.0.1. */
const dial = `require('node:net').connect(process.argv[1], '127.0.0.1').on('data', (data) => process.stdout.write(data))`
describe('the pages for operators', { timeout: 60_000 }, () => {
  let folder: string
  let node: Namespace
  let agent: Program

  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'viaduct-operator-'))
    mkdirSync(join(folder, 'manifests'))
    node = await Namespace.create('node')
    await node.ip('address add 192.0.2.1/32 dev lo')
    const own = [
      '--manifests',
      join(folder, 'manifests'),
      '--proxy-mode',
      'iptables',
      '--iptables-flavour=legacy',
      '--profiling',
    ]
    const name = ['--hostname-override', 'node-a', '-v', '2']
    agent = node.start(process.execPath, join(treeRoot, 'dist/agent.js'), ...own, ...name)
    await serverListens(agent, 'metrics')
  })

  after(async () => {
    await node.close()
    rmSync(folder, { recursive: true })
  })

  async function ask(path: string, method = 'GET', body = ''): Promise<readonly [number, string]> {
    return await askInNamespace(node, `http://127.0.0.1:10249${path}`, { method, body })
  }

  it('set the verbosity of the log at run time, as SIGUSR2 does', async () => {
    for (const v of [0, 2]) {
      assert.deepEqual(await ask('/debug/flags/v', 'PUT', `${v}`), [
        200,
        `successfully set klog.logging.verbosity to ${v}\n`,
      ])
    }
    const from = agent.lines.length
    writeFileSync(join(folder, 'manifests/web.yaml'), manifests)
    await agent.line((line) => line.includes('"msg":"Sync done"'), from)
    for (const v of [4, 2]) {
      const next = agent.lines.length
      agent.signal('SIGUSR2')
      assert.match(
        await agent.line((line) => line.includes('Log verbosity changed'), next),
        new RegExp(`"v":${v},`),
      )
    }
    assert.equal((await ask('/debug/flags/v'))[0], 406)
  })

  it('count connections to node ports at loopback addresses, not those that another program translates', async () => {
    const server = node.start(process.execPath, '-e', endpoint)
    await server.line((line) => line === 'listening')
    const metric = 'kubeproxy_iptables_localhost_nodeports_accepted_packets_total'
    const way =
      '--destination 127.0.0.1 --protocol tcp --dport 9999 --jump DNAT --to-destination 192.0.2.1:8080'
    await node.must('iptables-legacy', '-t', 'nat', '-A', 'OUTPUT', ...way.split(' '))
    for (const [port, expected] of [
      ['30080', 1],
      ['30080', 2],
      ['9999', 2],
    ] as const) {
      assert.equal(await node.must(process.execPath, '-e', dial, port), 'web')
      const [, text] = await ask('/metrics')
      assert.ok(text.split('\n').includes(`${metric} ${expected}`), `${metric} ${expected}`)
      assert.match(text, /^kubeproxy_iptables_ct_state_invalid_dropped_packets_total 0$/mu)
    }
  })

  it('show every documented metric that needs no feature gate, and no other', async () => {
    const [status, text] = await ask('/metrics')
    assert.equal(status, 200)
    const documented = treeText('docs/metrics.md').matchAll(
      /^\| `(\w+)` \| (?:counter|gauge|histogram) \|(?!.*with the gate)/gmu,
    )
    const types = text.matchAll(/^# TYPE (\w+) /gmu)
    assert.deepEqual(
      [...types].map(([, name = '']) => name).toSorted(),
      [...documented].map(([, name = '']) => name).toSorted(),
    )
    assert.match(text, /^viaduct_events_total\{kind="Service",type="set"\} 1$/mu)
    assert.match(text, /^viaduct_dirty_routes_total\{ip_family="IPv4"\} [1-9]/mu)
    assert.match(text, /^viaduct_kernel_calls_total\{subsystem="xtables"\} [1-9]/mu)
    assert.match(text, /^viaduct_ledger_objects\{ip_family="IPv4",kind="frontend"\} 2$/mu)
  })

  it('include profiles of V8', async () => {
    for (const [path, key] of [
      ['/debug/pprof/profile?seconds=1', 'nodes'],
      ['/debug/pprof/heap?seconds=1', 'head'],
    ] as const) {
      const [status, text] = await ask(path)
      assert.equal(status, 200)
      assert.ok(key in Object(JSON.parse(text)))
    }
  })

  it('exist for every other path of kube-proxy', async () => {
    assert.deepEqual(await ask('/proxyMode'), [200, 'iptables'])
    assert.deepEqual(await ask('/healthz'), [200, 'ok'])
    assert.match(
      (await ask('/metrics/slis'))[1],
      /^kubernetes_healthcheck\{name="ping",type="healthz"\} 1$/mu,
    )
    assert.deepEqual(await ask('/metrics/slis', 'DELETE'), [200, 'metrics reset\n'])
    assert.match((await ask('/configz'))[1], /"enableProfiling":true/u)
    assert.match((await ask('/flagz'))[1], /^oom-score-adj=-999\n(?:.*\n)*profiling=true$/mu)
    assert.match((await ask('/statusz'))[1], /^Paths: .*\/metrics\/slis/mu)
    assert.match((await ask('/debug/pprof/'))[1], /V8/u)
    assert.equal((await ask('/debug/pprof/goroutine'))[0], 404)
  })
})
