// The test support for namespaces: namespaces reach each other, probes report their results, and nothing is left behind.
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { after, before, describe, it } from 'node:test'
import { connect, Namespace } from '../support/namespaces.js'
import { Program } from '../support/processes.js'
import { eventually, ProbeClient, serve } from '../support/traffic.js'

describe('the network lab', { timeout: 60_000 }, () => {
  let left: Namespace
  let right: Namespace
  let client: ProbeClient

  before(async () => {
    left = await Namespace.create('left')
    right = await Namespace.create('right')
    await connect(
      { namespace: left, interfaceName: 'eth0', addresses: ['192.0.2.1/24', 'fd00:1::1/64'] },
      {
        namespace: right,
        interfaceName: 'eth0',
        addresses: ['192.0.2.2/24', '192.0.2.3/24', 'fd00:1::2/64'],
      },
    )
    await serve(right, [
      { protocol: 'tcp', address: '192.0.2.2', port: 80 },
      { protocol: 'tcp', address: '192.0.2.3', port: 80 },
      { protocol: 'udp', address: 'fd00:1::2', port: 53 },
    ])
    client = new ProbeClient(left)
  })
  after(async () => {
    await left.close()
    await right.close()
  })

  const cases = [
    ['tcp', '192.0.2.2', 80, { kind: 'answer', from: '192.0.2.2 80' }],
    ['tcp', '192.0.2.3', 80, { kind: 'answer', from: '192.0.2.3 80' }],
    ['udp', 'fd00:1::2', 53, { kind: 'answer', from: 'fd00:1::2 53' }],
    ['tcp', '192.0.2.2', 81, { kind: 'refused' }],
    ['udp', 'fd00:1::2', 54, { kind: 'refused' }],
    ['tcp', '198.51.100.1', 80, { kind: 'error', code: 'ENETUNREACH' }],
  ] as const
  for (const [protocol, address, port, result] of cases) {
    it(`a probe of ${protocol} ${address} port ${port} returns ${JSON.stringify(result)}`, async () => {
      assert.deepEqual(await client.probe({ protocol, address, port }), result)
    })
  }

  it('a probe without an answer returns a time-out', async () => {
    await left.must('ip', 'neigh', 'add', '192.0.2.8', 'lladdr', '02:00:00:00:00:01', 'dev', 'eth0')
    // No host has the link-layer address of the neighbour entry, so the datagram is lost.
    assert.deepEqual(await client.probe({ protocol: 'udp', address: '192.0.2.8', port: 9 }, 200), {
      kind: 'timeout',
    })
  })

  // A test whose time was over started a program beside the `after` of its suite. The program, and so the test file, ran on.
  it('a namespace starts no program once it closes', async () => {
    const namespace = await Namespace.create('closing')
    const closing = namespace.close()
    assert.throws(() => namespace.start('true'), /^Error: the namespace closing is closed: true$/u)
    await closing
  })

  it('a namespace ends with the process that holds it, even if the process is killed', async () => {
    const module = new URL('../support/namespaces.js', import.meta.url).href
    const program = `import { Namespace } from '${module}'
      const namespace = await Namespace.create('held')
      const inner = namespace.start('sleep', 'infinity')
      console.log(namespace.pid, inner.pid)`
    const holder = new Program([process.execPath, '--input-type=module', '--eval', program])
    const pids = (await holder.line(() => true)).split(' ')
    assert.ok(pids.length === 2 && pids.every((pid) => existsSync(`/proc/${pid}`)))
    await holder.kill()
    const alive = (): Promise<readonly string[]> =>
      Promise.resolve(pids.filter((pid) => existsSync(`/proc/${pid}`)))
    await eventually(alive, (running) => running.length === 0)
  })
})
