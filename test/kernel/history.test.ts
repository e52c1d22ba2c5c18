// `viaduct history` of the shipped agent: the cause of a pass, the time of its stages, and its operations.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import type { PassSnapshot } from '../../src/inspect/index.js'
import { Namespace } from '../support/namespaces.js'
import { eventually } from '../support/traffic.js'
import { treeRoot } from '../support/tree.js'

const agentFile = join(treeRoot, 'dist/agent.js')

const service = `
apiVersion: v1
kind: Service
metadata: { name: web, namespace: default }
spec: { clusterIP: 10.96.0.10, ports: [{ name: http, port: 80, protocol: TCP }] }
---
`

function slice(address: string): string {
  return `apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: web-1, namespace: default, labels: { kubernetes.io/service-name: web } }
addressType: IPv4
ports: [{ name: http, port: 8080, protocol: TCP }]
endpoints: [{ addresses: [${address}], conditions: { ready: true } }]
`
}

const modes: readonly {
  readonly name: string
  readonly flags: readonly string[]
  /** An operation that the change of the EndpointSlice causes. */
  readonly operation: RegExp
}[] = [
  {
    name: 'iptables mode, flavour legacy',
    flags: ['--proxy-mode=iptables', '--iptables-flavour=legacy'],
    operation: /^nat set-chain KUBE-SVC-\w{16}: 1 rules$/mu,
  },
  {
    name: 'iptables mode, flavour nft',
    flags: ['--proxy-mode=iptables', '--iptables-flavour=nft'],
    operation: /^nftables add-elements .*192\.0\.2\.3/mu,
  },
  {
    name: 'nftables mode',
    flags: ['--proxy-mode=nftables'],
    operation: /^nftables add-elements .*192\.0\.2\.3/mu,
  },
  {
    name: 'userspace mode',
    flags: ['--proxy-mode=userspace'],
    // It was "service 1".
    operation: /^relay set-service ipv4 default\/web:http\/TCP$/mu,
  },
]

for (const { name, flags, operation } of modes) {
  describe(`the history of ${name}`, { timeout: 120_000 }, () => {
    let folder: string
    let node: Namespace

    before(async () => {
      folder = mkdtempSync(join(tmpdir(), 'viaduct-history-'))
      mkdirSync(join(folder, 'manifests'))
      writeFileSync(join(folder, 'manifests', 'web.yaml'), `${service}${slice('192.0.2.2')}`)
      node = await Namespace.create('node')
      const agent = node.start(
        process.execPath,
        agentFile,
        ...flags,
        '-v=2',
        '--hostname-override=node-a',
        `--manifests=${join(folder, 'manifests')}`,
        `--control-socket=${join(folder, 'socket')}`,
      )
      await agent.line((line) => /Control socket listens/u.test(line))
      await agent.line((line) => line.includes('"Sync done"') && line.includes('"IPv4"'))
    })

    after(async () => {
      await node.close()
      rmSync(folder, { recursive: true })
    })

    function ask(...words: readonly string[]): string {
      const { status, stdout, stderr } = spawnSync(
        process.execPath,
        [agentFile, 'history', ...words, `--socket=${join(folder, 'socket')}`],
        { encoding: 'utf8' },
      )
      assert.deepEqual({ status, stderr }, { status: 0, stderr: '' })
      return stdout
    }

    function passes(): readonly PassSnapshot[] {
      return Object(JSON.parse(ask('-o', 'json'))).items
    }

    it('names the object that caused the operations of a pass', async () => {
      writeFileSync(join(folder, 'manifests', 'web.yaml'), `${service}${slice('192.0.2.3')}`)
      const caused = await eventually(
        async () => await Promise.resolve(passes().filter(({ reason }) => reason === 'change')),
        (found) => found.length > 0,
      )
      const [pass] = caused
      assert.deepEqual(pass?.objects, { count: 1, first: ['EndpointSlice default/web-1'] })
      assert.deepEqual(pass.changed, { count: 1, first: ['default/web:http/TCP'] })
      assert.match(pass.firstOperations.join('\n'), operation)
    })

    it('has the time of each stage', () => {
      for (const { durationMs, stages, reason, family } of passes()) {
        const { waitingMs = 0, compileMs, planMs, kernelMs } = stages
        assert.ok(Math.abs(compileMs + planMs + kernelMs - durationMs) < 0.001, JSON.stringify(stages))
        assert.ok(Math.min(waitingMs, compileMs, planMs) >= 0, JSON.stringify(stages))
        if (family === 'IPv4') assert.ok(kernelMs > 0, JSON.stringify(stages))
        assert.equal('waitingMs' in stages, reason === 'start' || reason === 'change')
      }
    })

    it('shows them in its table', () => {
      const ms = '\\d+\\.\\d ms +'
      assert.match(
        ask(),
        new RegExp(
          `^\\S+ +IPv4 +change +(?:${ms}){5}complete +default/web:http/TCP +\\S.*\\n  for EndpointSlice default/web-1\\n  \\S`,
          'mu',
        ),
      )
    })
  })
}
