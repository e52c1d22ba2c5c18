// The agent in this process, on the model kernel and a fake API server. Its signals are this process's own.
import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { it } from 'node:test'
import { run } from '../../../src/agent/index.js'
import { systemClock } from '../../../src/clock.js'
import { resolveConfig } from '../../../src/config/index.js'
import type { Kernel } from '../../../src/kernel/index.js'
import { ServiceManager } from '../../../src/process/index.js'
import { openModelKernel } from '../../model/index.js'
import { apiNode, apiService, apiSlice } from '../../support/api-documents.js'
import type { Document } from '../../support/api-shapes.js'
import { FakeApiServer } from '../../support/fake-api-server.js'
import { MemoryLog } from '../../support/pipeline-lab.js'

/** A kernel that can run userspace mode alone. */
function openPoorKernel(): Kernel {
  const kernel = openModelKernel()
  kernel.nftables.plan = { transactionFault: () => constants.errno.EPROTONOSUPPORT }
  for (const family of ['ipv4', 'ipv6'] as const)
    for (const table of ['nat', 'filter'] as const)
      kernel.xtables(family, table).plan = { callFault: () => constants.errno.ENOPROTOOPT }
  return {
    ...kernel,
    calls: new Map(),
    listTable: async () => [],
    hurry: () => {},
    notifyServiceManager: () => {},
    firewall: async () => [],
    peerCredentials: () => ({ pid: 1, uid: 0 }),
  }
}

function nodeAt(name: string, address: string): Document {
  return { ...apiNode(name), status: { addresses: [{ type: 'InternalIP', address }] } }
}

it('an agent that falls back to userspace mode makes no address of another Node local (issue 35, E2)', async () => {
  const api = new FakeApiServer()
  const address = '192.0.2.12'
  api.store.put('Node', nodeAt('node-a', '192.0.2.11'))
  api.store.put('Node', nodeAt('node-b', address))
  api.store.put('Service', apiService('web', '10.96.0.1', { externalIPs: [address] }))
  api.store.put('EndpointSlice', apiSlice('web-1', 'web', ['10.0.0.1']))
  await api.listen()
  const log = new MemoryLog()
  const ended = run({
    config: resolveConfig({
      mode: 'nftables',
      iptablesFlavour: 'legacy',
      hostnameOverride: 'node-a',
      // 0 keeps the OOM score of this process.
      oomScoreAdj: 0,
      controlSocket: '',
      client: { master: api.url.href },
      servers: { healthzServer: false, metricsServer: false },
    }),
    flagTexts: {},
    configFile: undefined,
    kernel: openPoorKernel(),
    clock: systemClock,
    log,
    manager: new ServiceManager({
      environment: { NOTIFY_SOCKET: '/none' },
      pid: process.pid,
      // When everything is in force.
      notify: (_socket, state) => {
        if (state.startsWith('READY')) process.emit('SIGTERM', 'SIGTERM')
      },
      clock: systemClock,
      log,
    }),
  })
  assert.equal(await ended, 0)
  await api.close()
  assert.equal(log.find('warn', 'Proxy mode falls back: userspace mode runs instead').length, 1)
  const left = log.lines.filter(({ message }) => message.includes(`does not make ${address} local`))
  assert.equal(left.length, 1, log.lines.map(({ message }) => message).join('\n'))
})
