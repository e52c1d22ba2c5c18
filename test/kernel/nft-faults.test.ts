// nftables mode beside programs that disturb it: the ruleset changes all the time, is flushed during the first sync, or another
// program owns the table.
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { eventually } from '../support/traffic.js'
import { SwitchLab } from '../traffic/switch-lab.js'

const limitMs = 30_000

describe('programs beside nftables mode', { timeout: 120_000 }, () => {
  let lab: SwitchLab

  beforeEach(async () => (lab = await SwitchLab.create()))
  afterEach(async () => await lab.close())

  /** Runs these commands of nft again and again, a hundred rounds a second, each command in a transaction of its own. */
  function nftLoop(rounds: number, ...commands: readonly string[]): Promise<unknown> {
    const script = `for round in $(seq ${rounds}); do printf '%s\\n' "$@"; sleep 0.01; done | nft -i`
    return lab.node.must('sh', '-c', script, 'sh', ...commands)
  }

  /** Elements of the IPv4 sets and maps whose names match, each with the name, sorted. */
  async function elements(names: RegExp): Promise<readonly string[]> {
    const { stdout } = await lab.node.run('nft', 'list', 'table', 'ip', 'kube-proxy')
    const sets = stdout.matchAll(/^\t(?:set|map) (\S+) \{(.*?)^\t\}/gmsu)
    return [...sets]
      .filter(([, name = '']) => names.test(name))
      .flatMap(([, name = '', content = '']) => {
        const body = /elements = \{([^}]*)\}/u.exec(content)?.[1] ?? ''
        const each = body.split(',').map((element) => element.trim())
        return each.filter((element) => element !== '').map((element) => `${name} ${element}`)
      })
      .toSorted()
  }

  it('the generation of the ruleset changes all the time: no change is lost', async () => {
    const agent = lab.startAgent('nftables')
    await agent.synced()
    const whole = await elements(/^service-endpoint-/u)
    const others = nftLoop(400, 'add table ip other', 'delete table ip other')
    const changes = Array.from({ length: 40 }, (_, index) => (index % 8) + 1)
    for (const endpoints of changes) {
      await lab.publish(endpoints)
      const counts = [
        `services-with-${endpoints} 10.96.0.10 . tcp . 80`,
        `services-with-${endpoints} 10.96.0.10 . udp . 80`,
      ]
      await eventually(
        async () => (await elements(/^services-with-\d/u)).join(),
        (found) => found === counts.join(),
        limitMs,
      )
    }
    await others
    // The last change was to all endpoints.
    assert.deepEqual(await elements(/^service-endpoint-/u), whole)
  })

  it('another program flushes the ruleset during the first sync: everything is there at last', async () => {
    const services = 8000
    await lab.publishMore(services)
    const agent = lab.startAgent('nftables')
    await nftLoop(150, 'flush ruleset')
    await agent.synced()
    await eventually(
      async () => (await elements(/^services-with-\d/u)).length,
      (count) => count === services + 2,
      limitMs,
    )
    assert.equal((await agent.terminate()).code, 0)
  })

  it('another program owns the table: that is reported, and the table stays as it is', async () => {
    const owner = lab.node.start('nft', '-i')
    owner.write('add table ip kube-proxy { flags owner; }\n')
    const tables = (): Promise<string> => lab.node.must('nft', 'list', 'table', 'ip', 'kube-proxy')
    await eventually(
      async () => await lab.node.must('nft', 'list', 'tables'),
      (text) => text.includes('kube-proxy'),
      limitMs,
    )
    const before = await tables()
    const agent = lab.startAgent('nftables')
    await agent.line(/"IPv4".*Network programming failed/u, 0)
    await agent.line(/"IPv6".*"complete":true.*"Sync done"/u, 0)
    assert.equal(await tables(), before)
    const from = agent.lineCount
    await owner.kill()
    await agent.line(/"IPv4".*"complete":true.*"Sync done"/u, from)
    assert.equal((await elements(/^service-endpoint-/u)).length, 16)
  })
})
