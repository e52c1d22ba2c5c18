// The real kube-proxy in nftables mode as a subject of the traffic table, with a fake API server in the same namespace. It follows changes.
import { type FSWatcher, watch } from 'node:fs'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import type { Namespace } from '../../support/namespaces.js'
import type { Program } from '../../support/processes.js'
import type { Topology } from '../../support/topology.js'
import { treeRoot } from '../../support/tree.js'
import type { Subject } from '../subject.js'
import { nftablesConfiguration, type TrafficGroup } from '../table/case.js'

const apiPort = 16_443
const apiProgram = join(treeRoot, 'out/ts/test/support/fake-api-program.js')
/** A firewall of a group may close INPUT. kube-proxy and its API server are on the same node here. */
const apiRule = `INPUT -i lo -p tcp --dport ${apiPort} -j ACCEPT`

const Manifest = Type.Object({
  items: Type.Array(
    Type.Object({
      kind: Type.String(),
      metadata: Type.Object({ namespace: Type.Optional(Type.String()), name: Type.String() }),
    }),
  ),
})

/** One run of kube-proxy with its API server. */
interface Run {
  readonly node: Namespace
  readonly folder: string
  readonly store: FolderStore
  readonly api: Program
  readonly kubeProxy: Program
}

export class KubeProxyProgram implements Subject {
  readonly #binary: string
  #run: Run | undefined

  /** `binary`: path of a kube-proxy with nftables mode. */
  constructor(binary: string) {
    this.#binary = binary
  }

  async start({ node }: Topology, group: TrafficGroup, folder: string): Promise<void> {
    const own = await mkdtemp(join(tmpdir(), 'viaduct-kube-proxy-'))
    await node.must('iptables-legacy', '-w', '-I', ...apiRule.split(' '))
    const api = node.start(process.execPath, apiProgram, String(apiPort))
    const store = new FolderStore(api, folder)
    await store.settled()
    await request(api, ['listen'])
    const config = await writeConfiguration(own, group)
    const kubeProxy = node.start('sh', '-c', 'exec "$@" 2>&1', 'sh', this.#binary, '--config', config, '-v=2')
    this.#run = { node, folder: own, store, api, kubeProxy }
    for (const family of ['IPv4', 'IPv6'])
      await kubeProxy.line(
        (line) => line.includes('"SyncProxyRules complete"') && line.includes(`ipFamily="${family}"`),
      )
  }

  async stop(): Promise<void> {
    const run = this.#run
    this.#run = undefined
    if (run === undefined) return
    run.kubeProxy.signal('SIGTERM')
    await run.kubeProxy.ended
    await run.store.close()
    await run.api.kill()
    // A group's own firewall may have been removed with it.
    await run.node.run('iptables-legacy', '-w', '-D', ...apiRule.split(' '))
    await rm(run.folder, { recursive: true })
  }
}

/** Writes kubeconfig and configuration; the path of the configuration. The limits of conntrack stay as they are. */
async function writeConfiguration(folder: string, { settings }: TrafficGroup): Promise<string> {
  const kubeconfig = join(folder, 'kubeconfig')
  const cluster = { server: `http://127.0.0.1:${apiPort}` }
  await writeFile(
    kubeconfig,
    JSON.stringify({
      apiVersion: 'v1',
      kind: 'Config',
      clusters: [{ name: 'test', cluster }],
      contexts: [{ name: 'test', context: { cluster: 'test', user: '' } }],
      'current-context': 'test',
    }),
  )
  const path = join(folder, 'configuration')
  const conntrack = {
    maxPerCore: 0,
    min: 0,
    tcpEstablishedTimeout: '0s',
    tcpCloseWaitTimeout: '0s',
  }
  const protobuf = 'application/vnd.kubernetes.protobuf'
  // The fake API server writes protobuf, and reads Events in JSON.
  const clientConnection = { kubeconfig, contentType: 'application/json', acceptContentTypes: protobuf }
  const configuration = { ...nftablesConfiguration(settings), clientConnection, conntrack }
  await writeFile(path, JSON.stringify(configuration))
  return path
}

/** Keeps the store of an API server equal to the manifests of a folder, until `close`. */
class FolderStore {
  readonly #api: Program
  readonly #folder: string
  /** The objects of each file: kind and `namespace/name`. */
  readonly #known = new Map<string, ReadonlyMap<string, readonly [kind: string, key: string]>>()

  readonly #watcher: FSWatcher
  /** Files are read one after the other. */
  #reading: Promise<void>

  constructor(api: Program, folder: string) {
    this.#api = api
    this.#folder = folder
    this.#watcher = watch(folder, (_, name) => {
      if (name !== null) this.#reading = this.#reading.then(async () => await this.#read(name))
    })
    this.#reading = this.#readAll()
  }

  /** Resolves when the store has the objects of all changes so far. */
  async settled(): Promise<void> {
    await this.#reading
  }

  async close(): Promise<void> {
    this.#watcher.close()
    await this.#reading
  }

  async #readAll(): Promise<void> {
    for (const name of await readdir(this.#folder)) await this.#read(name)
  }

  /** Puts the objects of the file, and removes those that it had before. */
  async #read(name: string): Promise<void> {
    const list: unknown = JSON.parse(await readFile(join(this.#folder, name), 'utf8'))
    Value.Assert(Manifest, list)
    const found = new Map<string, readonly [kind: string, key: string]>()
    for (const item of list.items) {
      const { kind, metadata } = item
      const key = `${metadata.namespace ?? ''}/${metadata.name}`
      found.set(`${kind} ${key}`, [kind, key])
      await request(this.#api, ['put', kind, item])
    }
    for (const [id, object] of this.#known.get(name) ?? [])
      if (!found.has(id)) await request(this.#api, ['remove', ...object])
    this.#known.set(name, found)
  }
}

/** Sends a command, and waits until it is done. */
async function request(api: Program, command: readonly unknown[]): Promise<void> {
  const line = JSON.stringify(command)
  const from = api.lines.length
  api.write(`${line}\n`)
  await api.line((text) => text === line, from)
}
