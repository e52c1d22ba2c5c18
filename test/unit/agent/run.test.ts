// The agent in this process, on the model kernel. Its signals are this process's own.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { run } from '../../../src/agent/index.js'
import { systemClock } from '../../../src/clock.js'
import { resolveConfig, type ConfigInput } from '../../../src/config/index.js'
import type { Kernel } from '../../../src/kernel/index.js'
import { openModelKernel } from '../../model/index.js'
import { ServiceManager } from '../../../src/process/index.js'
import { settle } from '../../support/manual-clock.js'
import { MemoryLog } from '../../support/pipeline-lab.js'

/** No program listens at this address. */
const kubeconfigText = `
current-context: here
contexts: [{ name: here, context: { cluster: here, user: person } }]
clusters: [{ name: here, cluster: { server: 'http://127.0.0.1:1' } }]
users: [{ name: person, user: {} }]
`

let folder: string
before(() => {
  folder = mkdtempSync(join(tmpdir(), 'viaduct-run-'))
})
after(() => rmSync(folder, { recursive: true }))

/** A kernel that records which of its parts the agent uses. */
function openNoted(): { readonly kernel: Kernel; readonly asked: readonly string[] } {
  const asked: string[] = []
  const kernel: Kernel = {
    ...openModelKernel(),
    calls: new Map(),
    listTable: async () => [],
    hurry: () => {},
    notifyServiceManager: () => {},
    firewall: async () => [],
    peerCredentials: () => ({ pid: 1, uid: 0 }),
  }
  const get = (target: Kernel, name: string): unknown => {
    asked.push(name)
    return Reflect.get(target, name)
  }
  return { kernel: new Proxy(kernel, { get }), asked }
}

function start(input: ConfigInput) {
  const { kernel, asked } = openNoted()
  const log = new MemoryLog()
  const path = join(folder, 'config.yaml')
  const bytes = Buffer.from('{}')
  writeFileSync(path, bytes)
  const ended = run({
    // 0 keeps the OOM score of this process.
    config: resolveConfig({ ...input, oomScoreAdj: 0 }),
    flagTexts: {},
    configFile: { path, bytes },
    kernel,
    clock: systemClock,
    log,
    manager: new ServiceManager({
      environment: {},
      pid: process.pid,
      notify: () => {},
      clock: systemClock,
      log,
    }),
  })
  return { ended, asked, log }
}

async function assertUnwatched(): Promise<void> {
  // A handle is closed at the end of a turn of the event loop.
  await settle()
  await settle()
  assert.ok(!process.getActiveResourcesInfo().includes('FSEventWrap'), 'the file is watched no more')
}

describe('an agent that opens its source', () => {
  it('ends by a signal without a call into the kernel', async () => {
    const kubeconfig = join(folder, 'kubeconfig')
    writeFileSync(kubeconfig, kubeconfigText)
    const { ended, asked, log } = start({ client: { clientConnection: { kubeconfig } } })
    process.emit('SIGTERM', 'SIGTERM')
    assert.equal(await ended, 0)
    assert.deepEqual(asked, [])
    assert.deepEqual(
      log.lines.map(({ message, fields }) => [message, fields]),
      [['viaduct stops; the kernel keeps its state', { signal: 'SIGTERM' }]],
    )
    await assertUnwatched()
  })

  it('leaves nothing behind if that fails', async () => {
    const { ended, asked } = start({ client: { clientConnection: { kubeconfig: join(folder, 'missing') } } })
    await assert.rejects(ended, { name: 'ConfigError' })
    assert.deepEqual(asked, [])
    await assertUnwatched()
  })
})
