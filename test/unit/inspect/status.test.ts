// Values of the status that are not plain copies, and the configuration that commands get from the agent.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { resolve } from 'node:path'
import { type Inspected, status, configuration } from '../../../src/inspect/index.js'
import { NodeTracker } from '../../../src/node/index.js'
import { ManualClock } from '../../support/manual-clock.js'
import { readConfig, resolveConfig, type Config, type ConfigInput } from '../../../src/config/index.js'

interface Settings {
  readonly isInForce?: boolean
  readonly complete?: readonly boolean[]
  readonly levels?: readonly string[]
}

/** The agent as the status sees it: one family with these passes, and these problems. */
function inspectedWith({ isInForce = false, complete = [], levels = [] }: Settings): Inspected {
  const view = {
    health: { family: 'ipv4', lastUpdatedMs: 1000, isHealthy: true },
    services: { servicePortCount: 0, endpointCount: 0 },
    isInForce,
    hasRefusals: false,
    passes: complete.map((isComplete) => ({ isComplete })),
  }
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  return {
    config: { version: '1', mode: 'iptables', manifests: undefined },
    mode: 'iptables',
    flavour: 'nft',
    node: new NodeTracker('here'),
    synchronizer: { views: [view], passes: [] },
    problems: () => levels.map((level, at) => ({ level, line: String(at), fields: {} })),
    metric: async () => await Promise.resolve([]),
    startedMs: 0,
    clock: new ManualClock(),
  } as unknown as Inspected
}

const second = '1970-01-01T00:00:01.000Z'

describe('the status', () => {
  // The time of the start stood there.
  for (const { settings, lastSync } of [
    { settings: {}, lastSync: undefined },
    { settings: { complete: [false, false] }, lastSync: undefined },
    { settings: { complete: [true, false] }, lastSync: second },
    { settings: { isInForce: true, complete: [false] }, lastSync: second },
  ])
    it(`has the last sync ${lastSync ?? 'none'} with ${JSON.stringify(settings)}`, async () => {
      const { families } = await status(inspectedWith(settings))
      assert.equal(families[0]?.lastSync, lastSync)
    })

  it('has errors before warnings, each oldest first', async () => {
    const { problems, problemCount } = await status(
      inspectedWith({ levels: [...Array.from({ length: 20 }, () => 'warn'), 'error', 'error'] }),
    )
    assert.equal(problemCount, 22)
    assert.deepEqual(
      problems.map(({ problem }) => Number(problem)),
      [20, 21, ...Array.from({ length: 18 }, (_, at) => at)],
    )
  })

  it('has the flavour of iptables', async () => {
    const { mode } = await status(inspectedWith({}))
    assert.deepEqual(mode, { active: 'iptables', configured: 'iptables', flavour: 'nft' })
  })
})

/** The configuration that a command reads from the page. */
function shown(input: ConfigInput): Config {
  const node = new NodeTracker('node-a', undefined)
  const { documents } = configuration({ config: resolveConfig(input), mode: 'iptables', node })
  return resolveConfig(readConfig('page', Buffer.from(documents), { isStrict: true }))
}

describe('the configuration for commands', () => {
  it('has absolute paths, for commands with another working directory', () => {
    const { controlSocket, manifests } = shown({ controlSocket: 'run/v.sock', manifests: 'm' })
    assert.deepEqual([controlSocket, manifests], [resolve('run/v.sock'), resolve('m')])
    const { client } = shown({ client: { clientConnection: { kubeconfig: 'k' } } })
    assert.equal(client.clientConnection.kubeconfig, resolve('k'))
  })

  it('leaves absent paths absent', () => {
    const { client, controlSocket, manifests } = shown({ controlSocket: '' })
    assert.deepEqual(
      [client.clientConnection.kubeconfig, controlSocket, manifests],
      ['', undefined, undefined],
    )
  })
})
