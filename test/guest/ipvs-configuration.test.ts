// Effects of the ipvs section of the configuration and of Service annotations, in the kernel and in ipvsadm.
import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { Namespace } from '../support/namespaces.js'
import { AgentProcess } from '../traffic/agent-process.js'

const flags = [
  '--ipvs-scheduler=sh',
  '--ipvs-scheduler-flags=sh-port',
  '--ipvs-strict-arp',
  '--ipvs-run-estimation=false',
  '--ipvs-tcp-timeout=16m',
  '--ipvs-udp-timeout=40s',
  '--ipvs-sync-period=5s',
]

const expectedSettings = {
  'vs/conntrack': '1',
  'vs/expire_nodest_conn': '1',
  'vs/expire_quiescent_template': '1',
  'vs/conn_reuse_mode': '1', // from Linux 5.9 on
  'vs/run_estimation': '0',
  ip_forward: '1',
  'conf/all/arp_ignore': '1',
  'conf/all/arp_announce': '2',
}

const endpoints = [
  { addresses: ['10.244.0.1'], nodeName: 'node-a' },
  { addresses: ['10.244.1.1'], nodeName: 'node-b' },
]

/** A Service and its endpoints, on port 80. */
function manifest(name: string, clusterIP: string, annotations: Readonly<Record<string, string>>): string {
  const service = {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name, annotations },
    spec: { clusterIP, ports: [{ port: 80 }] },
  }
  const slice = {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { name, labels: { 'kubernetes.io/service-name': name } },
    addressType: 'IPv4',
    ports: [{ port: 80 }],
    endpoints,
  }
  return JSON.stringify({ apiVersion: 'v1', kind: 'List', items: [service, slice] })
}

describe('the ipvs section of the configuration', { timeout: 300_000 }, () => {
  let node: Namespace
  let folder: string
  let agent: AgentProcess

  before(async () => {
    node = await Namespace.create('node-a')
    folder = await mkdtemp(join(tmpdir(), 'viaduct-manifests-'))
    const files = {
      plain: manifest('plain', '10.96.0.1', {}),
      chosen: manifest('chosen', '10.96.0.2', {
        'viaduct.dev/ipvs-scheduler': 'mh',
        'viaduct.dev/ipvs-weights': 'node-b=7',
      }),
      wrong: manifest('wrong', '10.96.0.3', { 'viaduct.dev/ipvs-scheduler': 'nosuch' }),
    }
    for (const [name, text] of Object.entries(files)) await writeFile(join(folder, `${name}.json`), text)
    agent = AgentProcess.start({ node, manifests: folder, flags })
    await agent.synced()
  })
  after(async () => {
    await agent.kill()
    await node.close()
    await rm(folder, { recursive: true })
  })

  const timeouts = (): Promise<string> => node.must('ipvsadm', '--list', '--timeout')
  const settings = async (): Promise<readonly string[]> => {
    const paths = Object.keys(await expected()).map((path) => `/proc/sys/net/ipv4/${path}`)
    return (await node.must('cat', ...paths)).trim().split('\n')
  }
  /** Kernels such as 5.10 have no vs/run_estimation. */
  const expected = async (): Promise<Readonly<Record<string, string>>> => {
    const { 'vs/run_estimation': estimation, ...others } = expectedSettings
    const { code } = await node.run('test', '-e', '/proc/sys/net/ipv4/vs/run_estimation')
    return code === 0 ? { 'vs/run_estimation': estimation, ...others } : others
  }

  it('sets kernel settings', async () => {
    assert.deepEqual(await settings(), Object.values(await expected()))
  })

  it("sets configured time-outs, and keeps the kernel's others", async () => {
    assert.match(await timeouts(), /\(tcp tcpfin udp\): 960 120 40$/m)
  })

  it('sets schedulers, flags and weights of the configuration and of Services', async () => {
    const servers = await node.must('ipvsadm', '--save', '--numeric')
    assert.match(servers, /^-A -t 10\.96\.0\.1:80 -s sh -b sh-port$/m)
    assert.match(servers, /^-A -t 10\.96\.0\.2:80 -s mh -b mh-port$/m)
    assert.match(servers, /^-a -t 10\.96\.0\.2:80 -r 10\.244\.0\.1:80 -m -w 1$/m)
    assert.match(servers, /^-a -t 10\.96\.0\.2:80 -r 10\.244\.1\.1:80 -m -w 7$/m)
    assert.match(servers, /^-A -t 10\.96\.0\.3:80 -s sh -b sh-port$/m, 'what cannot be had is by default')
  })

  it('corrects a foreign change within a sync period', async () => {
    const { lineCount } = agent
    await node.must('ipvsadm', '--set', '100', '100', '100')
    await node.must('sh', '-c', 'echo 0 > /proc/sys/net/ipv4/vs/conntrack')
    await agent.line(/Time-outs of IPVS changed/, lineCount)
    await agent.line(/vs\/conntrack.*Kernel setting changed/, lineCount)
    assert.match(await timeouts(), /: 960 100 40$/m)
    assert.deepEqual(await settings(), Object.values(await expected()))
  })
})
