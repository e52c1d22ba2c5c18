// The configuration that commands get from the agent.
import assert from 'node:assert/strict'
import { resolve } from 'node:path'
import { describe, it } from 'node:test'
import { readConfig, resolveConfig, type Config, type ConfigInput } from '../../../src/config/index.js'
import { configuration } from '../../../src/inspect/index.js'
import { NodeTracker } from '../../../src/node/index.js'

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
