// `viaduct bundle` beside the shipped agent, in its own namespace: the parts, the kernel's listings, and secrets in every input.
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { Namespace } from '../support/namespaces.js'
import { treeRoot } from '../support/tree.js'

const agentFile = join(treeRoot, 'dist/agent.js')

/** In each secret of the inputs. */
const planted = 'PLANTED'

const manifests = `
apiVersion: v1
kind: Service
metadata:
  name: web
  namespace: default
  annotations:
    kubectl.kubernetes.io/last-applied-configuration: '{"stringData":{"token":"${planted}-annotation"}}'
spec: { clusterIP: 10.96.0.10, ports: [{ name: http, port: 80, protocol: TCP }] }
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: web-1, namespace: default, labels: { kubernetes.io/service-name: web } }
addressType: IPv4
ports: [{ name: http, port: 8080, protocol: TCP }]
endpoints: [{ addresses: [192.0.2.1], conditions: { ready: true } }]
`

/** No program listens at the server or at the proxy. */
const kubeconfigs: Readonly<Record<string, object>> = {
  token: { token: `${planted}-token` },
  login: { username: 'admin', password: `${planted}-password` },
  exec: {
    exec: {
      apiVersion: 'client.authentication.k8s.io/v1',
      command: '/bin/sh',
      args: ['-c', `echo "token: ${planted}-output" >&2; exit 1`],
      env: [{ name: 'LOGIN_TOKEN', value: `${planted}-variable` }],
      interactiveMode: 'Never',
    },
  },
}

function kubeconfig(user: object): string {
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'here',
    contexts: [{ name: 'here', context: { cluster: 'here', user: 'person' } }],
    clusters: [
      {
        name: 'here',
        cluster: {
          server: 'https://127.0.0.1:1',
          'insecure-skip-tls-verify': true,
          'proxy-url': `http://admin:${planted}-proxy@127.0.0.1:1`,
        },
      },
    ],
    users: [{ name: 'person', user }],
  })
}

const agentParts = [
  'configuration.yaml',
  'endpoints.json',
  'flags.json',
  'history.json',
  'log.txt',
  'metrics.txt',
  'routes.json',
  'services.json',
  'status.json',
]
const nodeParts = [
  'doctor.json',
  'kernel/conntrack.txt',
  'kernel/hand-over.nft',
  'kernel/ipset.txt',
  'kernel/iptables.txt',
  'kernel/ipvs.txt',
  'kernel/nftables.nft',
  'kernel/routes.txt',
  'kernel/viaduct-ipvs.nft',
  'kernel/viaduct-userspace.nft',
  'versions.json',
]

describe('viaduct bundle', { timeout: 120_000 }, () => {
  let folder: string
  let node: Namespace

  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'viaduct-bundle-'))
    mkdirSync(join(folder, 'manifests'))
    writeFileSync(join(folder, 'manifests', 'all.yaml'), manifests)
    node = await Namespace.create('node')
  })

  after(async () => {
    await node.close()
    rmSync(folder, { recursive: true })
  })

  /** Runs the agent with these flags, makes a bundle, and stops the agent. Resolves with the files of the bundle by name. */
  async function bundleBeside(
    name: string,
    flags: readonly string[],
    last: RegExp,
  ): Promise<{ readonly code: number | undefined; readonly files: ReadonlyMap<string, string> }> {
    const socket = join(folder, `${name}.sock`)
    const own = ['--hostname-override=node-a', '-v=4', `--control-socket=${socket}`]
    const proxy = `HTTPS_PROXY=http://admin:${planted}-environment@127.0.0.1:1`
    const agent = node.start('env', proxy, process.execPath, agentFile, ...own, ...flags)
    await agent.line((line) => line.includes('Control socket listens'))
    await agent.line((line) => last.test(line))
    const result = await bundle(name, `--socket=${socket}`)
    agent.signal('SIGTERM')
    assert.equal((await agent.ended).code, 0)
    return result
  }

  async function bundle(
    name: string,
    ...words: readonly string[]
  ): Promise<{ readonly code: number | undefined; readonly files: ReadonlyMap<string, string> }> {
    const file = join(folder, `${name}.tar.gz`)
    const { code, stdout } = await node.start(process.execPath, agentFile, 'bundle', '-f', file, ...words)
      .ended
    assert.equal(stdout, '')
    assert.equal(statSync(file).mode & 0o777, 0o600)
    return { code, files: unpacked(name) }
  }

  function unpacked(name: string): ReadonlyMap<string, string> {
    const target = join(folder, name)
    mkdirSync(target)
    execFileSync('tar', ['-xzf', `${target}.tar.gz`, '-C', target, '--strip-components=1'])
    const names = readdirSync(target, { recursive: true, encoding: 'utf8' })
    const files = names.filter((each) => statSync(join(target, each)).isFile())
    return new Map(files.map((each) => [each, readFileSync(join(target, each), 'utf8')]))
  }

  const listings: readonly (readonly [
    mode: string,
    flags: readonly string[],
    file: string,
    lines: readonly RegExp[],
  ])[] = [
    [
      'nftables',
      [],
      'kernel/nftables.nft',
      [
        /^add table ip kube-proxy$/m,
        /^add element ip kube-proxy service-endpoint-0 \{ 10\.96\.0\.10 \. tcp \. 80 : 192\.0\.2\.1 \. 8080 \}$/m,
        /^add chain ip kube-proxy \S+ \{ type nat hook prerouting priority -101 ; policy accept ; \}$/m,
        /^add rule ip kube-proxy /m,
      ],
    ],
    [
      'iptables',
      ['--iptables-flavour=nft'],
      'kernel/nftables.nft',
      [
        /^add table ip kube-proxy$/m,
        /^add element ip kube-proxy service-endpoint-0 \{ 10\.96\.0\.10 \. tcp \. 80 : 192\.0\.2\.1 \. 8080 \}$/m,
        /^add chain ip kube-proxy \S+ \{ type nat hook prerouting priority -101 ; policy accept ; \}$/m,
      ],
    ],
    [
      'iptables',
      ['--iptables-flavour=legacy'],
      'kernel/iptables.txt',
      [
        /^# iptables-legacy-save\n\*/m,
        /^:KUBE-SVC-\S+ - \[0:0\]$/m,
        /^-A KUBE-SVC-\S+ .*-j DNAT --to-destination 192\.0\.2\.1:8080$/m,
        /^-A PREROUTING .*-j KUBE-SERVICES$/m,
      ],
    ],
  ]
  for (const [mode, flags, file, lines] of listings)
    it(`lists the kernel objects of ${[mode, ...flags].join(' ')}, and has no annotation`, async () => {
      const source = [
        `--manifests=${join(folder, 'manifests')}`,
        `--proxy-mode=${mode}`,
        '--bind-address=192.0.2.9',
      ]
      const { code, files } = await bundleBeside(
        [mode, ...flags].join(''),
        [...source, ...flags],
        /Sync done/u,
      )
      const errors = [...files].filter(([name]) => name.endsWith('.error'))
      assert.deepEqual({ code, errors }, { code: 0, errors: [] })
      assert.deepEqual([...files.keys()].toSorted(), [...agentParts, ...nodeParts].toSorted())
      for (const line of lines) assert.match(files.get(file) ?? '', line)
      assert.match(files.get('log.txt') ?? '', /Sync done/u)
      assert.match(files.get('metrics.txt') ?? '', /^kubeproxy_sync_proxy_rules_duration_seconds/m)
      // A row on one line, as the agent sends it: the indented lists of 10,000 Services were longer than a part may be.
      assert.match(files.get('services.json') ?? '', /^\{"service":"default\/web",.*\}$/mu)
      for (const [name, text] of files) assert.ok(!text.includes(planted), name)
    })

  for (const [kind, user] of Object.entries(kubeconfigs))
    it(`leaves out the secrets of a kubeconfig with ${kind}, and of proxies`, async () => {
      const path = join(folder, `${kind}.kubeconfig`)
      writeFileSync(path, kubeconfig(user))
      const flags = [`--kubeconfig=${path}`, '--proxy-mode=iptables', '--iptables-flavour=legacy']
      const { files } = await bundleBeside(kind, flags, /./u)
      assert.deepEqual(
        [...agentParts, ...nodeParts].filter((name) => !files.has(name)),
        [],
      )
      for (const [name, text] of files) assert.ok(!text.includes(planted), `${name}: ${text}`)
    })

  it('has the parts of the node without an agent, and ends with code 3', async () => {
    const { code, files } = await bundle('none', `--socket=${join(folder, 'nobody.sock')}`)
    assert.equal(code, 3)
    const errors = agentParts.map((name) => `${name}.error`)
    assert.deepEqual([...files.keys()].toSorted(), [...errors, ...nodeParts].toSorted())
    assert.match(files.get('status.json.error') ?? '', /^no agent listens on /u)
  })

  // The doctor asked it again, and waited for its time limit a second time.
  it('asks an agent that gives no answer once for all its parts', async () => {
    const asked: string[] = []
    const silent = createServer((socket) => {
      socket.once('data', (request: Buffer) => {
        asked.push(/\/v1\/\w+/u.exec(request.toString())?.[0] ?? '')
        socket.destroy()
      })
    })
    const path = join(folder, 'silent.sock')
    await new Promise<void>((resolve) => silent.listen(path, resolve))
    try {
      const { code, files } = await bundle('silent', `--socket=${path}`)
      assert.equal(code, 3)
      assert.match(files.get('log.txt.error') ?? '', /closed the connection/u)
      assert.deepEqual(asked, ['/v1/configuration'])
      assert.match(files.get('doctor.json') ?? '', /closed the connection/u)
    } finally {
      await new Promise((resolve) => silent.close(resolve))
    }
  })

  it('does not overwrite a file, nor write through a symbolic link', () => {
    const file = join(folder, 'kept')
    writeFileSync(file, 'text')
    const { status, stderr } = spawnSync(process.execPath, [agentFile, 'bundle', '-f', file], {
      encoding: 'utf8',
    })
    assert.deepEqual([status, readFileSync(file, 'utf8')], [1, 'text'])
    assert.match(stderr, /^viaduct: EEXIST: /u)
    symlinkSync(join(folder, 'elsewhere'), join(folder, 'link'))
    const linked = spawnSync(process.execPath, [agentFile, 'bundle', '-f', join(folder, 'link')])
    assert.deepEqual([linked.status, existsSync(join(folder, 'elsewhere'))], [1, false])
  })

  it('writes to standard output', () => {
    const words = [agentFile, 'bundle', '-f', '-', `--socket=${join(folder, 'nobody.sock')}`]
    const { status, stdout } = spawnSync(process.execPath, words)
    assert.equal(status, 3)
    const listed = execFileSync('tar', ['-tz'], { input: stdout, encoding: 'utf8' })
    assert.match(listed, /\/versions\.json\n/u)
    assert.ok(!existsSync('-'))
  })

  it('refuses wrong arguments with code 2', () => {
    for (const words of [['-f'], ['--no-such-flag'], ['word']]) {
      const { status, stderr } = spawnSync(process.execPath, [agentFile, 'bundle', ...words], {
        encoding: 'utf8',
      })
      assert.equal(status, 2, stderr)
      assert.match(stderr, /^viaduct: [^(]*\(see viaduct help bundle\)\n$/u)
    }
  })
})
