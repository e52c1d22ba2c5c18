import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { formatCidr } from '../../src/address.js'
import { systemClock, type Clock } from '../../src/clock.js'
import { resolveConfig } from '../../src/config/index.js'
import { openLog } from '../../src/log.js'
import {
  nodeFileSystem,
  openSource,
  type KubernetesObject,
  type ObjectEvent,
} from '../../src/source/index.js'
import { type FileSystem } from '../../src/source/testing.js'

/** One line per event: `+Service default/web 10.96.0.1`, `-Service default/web`, `synced`. */
export function describeEvent(event: ObjectEvent): string {
  if (event.type === 'delete') return `-${event.kind} ${event.key.namespace}/${event.key.name}`
  if (event.type !== 'set') return event.type
  const { object } = event
  return `+${object.kind} ${object.namespace}/${object.name}${detailOf(object)}`
}

function detailOf(object: KubernetesObject): string {
  if (object.kind === 'Service') return ` ${object.clusterIP}`
  return object.kind === 'ServiceCIDR' ? ` ${object.cidrs.map(formatCidr).join(',')}` : ''
}

/** A source on a temporary folder, with its events and log lines. */
export class ManifestFolder {
  readonly base = mkdtempSync(join(tmpdir(), 'viaduct-source-'))
  readonly root = join(this.base, 'manifests')
  readonly batches: string[][] = []
  readonly log: string[] = []
  readonly read: string[] = []
  errors = 0
  /** The error that ended the source. */
  readonly crashes: unknown[] = []
  /** Receives the events after they were recorded. */
  deliver: (events: readonly ObjectEvent[]) => void = () => undefined
  /** Number of open watches. */
  watches = 0
  #source: ReturnType<typeof openSource> | undefined
  #wake: () => void = () => undefined

  path(name: string): string {
    return join(this.root, name)
  }

  async start(fileSystem: Partial<FileSystem> = {}, clock: Clock = systemClock): Promise<void> {
    const inner: FileSystem = { ...nodeFileSystem, ...fileSystem }
    const counting: FileSystem = {
      ...inner,
      read: (path) => {
        this.read.push(path.slice(this.root.length + 1))
        return inner.read(path)
      },
      watch: (path, listener) => {
        const close = inner.watch(path, listener)
        if (close === undefined) return undefined
        this.watches += 1
        return () => {
          this.watches -= 1
          close()
        }
      },
    }
    const destination = { write: (line: string) => this.#note(line) }
    this.#source = openSource(resolveConfig({ manifests: this.root }), {
      fileSystem: counting,
      clock,
      log: openLog({ format: 'json', verbosity: 0, destination, clock: { unixMs: () => 0 } }),
      metrics: {
        manifestErrors: { set: (count) => (this.errors = count) },
        apiObjectErrors: { set: () => assert.fail() },
        apiLinksDown: { set: () => assert.fail() },
        apiRequest: () => assert.fail(),
      },
      nodeName: 'node-a',
      environment: {},
      onCrash: (error) => this.#noteCrash(error),
    })
    const { source } = await this.#source
    await source.start((events) => {
      this.batches.push(events.map(describeEvent))
      this.#wake()
      this.deliver(events)
    })
  }

  /** Waits for deliveries and log lines until the condition holds. */
  async until(isThere: () => boolean): Promise<void> {
    while (!isThere()) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
  }

  /** The first batch of events after the call of `act`. */
  async after(act: () => void): Promise<readonly string[]> {
    const before = this.batches.length
    act()
    await this.until(() => this.batches.length > before)
    return this.batches[before] ?? []
  }

  /** The first log line after the call of `act`. */
  async loggedAfter(act: () => void): Promise<string> {
    const before = this.log.length
    act()
    await this.until(() => this.log.length > before)
    return this.log[before] ?? ''
  }

  async stop(): Promise<void> {
    // A source that could not be opened needs no stop.
    const opened = await this.#source?.catch(() => undefined)
    await opened?.source.stop()
  }

  async close(): Promise<void> {
    await this.stop()
    rmSync(this.base, { recursive: true, force: true })
  }

  #noteCrash(error: unknown): void {
    this.crashes.push(error)
    this.#wake()
  }

  #note(line: string): void {
    const { msg }: { msg: string } = JSON.parse(line)
    this.log.push(msg.replaceAll(`${this.root}/`, '').replaceAll(this.root, '.'))
    this.#wake()
  }
}
