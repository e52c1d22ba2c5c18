// Issue 18, C2: a rule that the kernel refuses stops only its Service, in iptables mode.
import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import type { XtRule } from '../../src/kernel/index.js'
import type { ObjectEvent } from '../../src/source/index.js'
import { IptablesLab, jumpTo, linesWith, ruleLines } from '../support/iptables-lab.js'
import { port, remove, service, set, slice, synced } from '../support/objects.js'
import { ip } from '../support/pipeline-lab.js'

const { EINVAL, ENOMEM, EPROTONOSUPPORT } = constants.errno

/** Lines with the same beginning in 10 s. Further ones are summarized. */
const mostLines = 20

const web = [set(service('web', '10.96.0.1')), set(slice('web-1', 'web', ['10.1.0.1']))]
const shop = [set(service('shop', '10.96.0.2')), set(slice('shop-1', 'shop', ['10.2.0.1']))]
const sctp = { ports: [{ name: '', protocol: 'SCTP', port: 8080 }] } as const

const isSctp = ({ protocol, destinationPorts }: XtRule): boolean =>
  protocol === 'sctp' && destinationPorts !== undefined

function openLab(refuses: (rule: XtRule) => boolean, errno: number): IptablesLab {
  const lab = new IptablesLab()
  for (const table of ['nat', 'filter'] as const)
    lab.kernel.xtables('ipv4', table).plan = { ruleFault: (rule) => (refuses(rule) ? errno : undefined) }
  return lab
}

function takeAll(lab: IptablesLab): void {
  for (const table of ['nat', 'filter'] as const) lab.kernel.xtables('ipv4', table).plan = {}
}

function serves(lab: IptablesLab, address: string): boolean {
  return linesWith(lab.kernel.xtNamespace, `--to-destination ${address}:8080`).length > 0
}

async function failedObjects(lab: IptablesLab): Promise<string | undefined> {
  return /viaduct_objects_failed (\d+)/u.exec(await lab.registry.metrics())?.[1]
}

describe('a Service with a rule that the kernel refuses', () => {
  const rows: readonly {
    readonly name: string
    readonly refuses: (rule: XtRule) => boolean
    readonly errno: number
    readonly bad: readonly ObjectEvent[]
    readonly named: RegExp
    /** Text that the tables contain after the kernel accepts the rule. */
    readonly word: string
    /** Number of refused service ports. Default: 1. */
    readonly ports?: number
  }[] = [
    {
      name: 'affinity without xt_recent',
      refuses: ({ recent }) => recent !== undefined,
      errno: EINVAL,
      bad: [
        set(service('bad', '10.96.0.3', { sessionAffinity: 'ClientIP' })),
        set(slice('bad-1', 'bad', ['10.3.0.1'])),
      ],
      named: /Service default\/bad: .*ipv4 nat KUBE-.*EINVAL/u,
      word: '--to-destination 10.3.0.1:8080',
    },
    {
      name: 'a port of SCTP without xt_sctp',
      refuses: isSctp,
      errno: EPROTONOSUPPORT,
      bad: [
        set(
          service('bad', '10.96.0.3', {
            type: 'NodePort',
            ports: [port(80), port(81, { name: 'media', protocol: 'SCTP', nodePort: 30_081 })],
          }),
        ),
        set(slice('bad-1', 'bad', ['10.3.0.1'], { ports: [{ ...sctp.ports[0], name: 'media' }] })),
      ],
      named: /Service default\/bad:media: .*EPROTONOSUPPORT/u,
      word: '--to-destination 10.3.0.1:8080',
    },
    {
      name: 'the refusal of a port of SCTP without endpoints',
      refuses: isSctp,
      errno: EPROTONOSUPPORT,
      bad: [set(service('bad', '10.96.0.3', { ports: [port(80, { protocol: 'SCTP' })] }))],
      named: /Service default\/bad: .*ipv4 filter KUBE-SERVICES.*EPROTONOSUPPORT/u,
      word: '-d 10.96.0.3/32 -p sctp',
    },
    {
      name: 'ports of SCTP that fill a bucket',
      refuses: isSctp,
      errno: EPROTONOSUPPORT,
      bad: [
        set(
          service('bad', '10.96.0.3', {
            ports: Array.from({ length: 40 }, (_, i) => port(80 + i, { name: `p${i}`, protocol: 'SCTP' })),
          }),
        ),
      ],
      named: /Service default\/bad:p0: .*EPROTONOSUPPORT/u,
      word: '-d 10.96.0.3/32 -p sctp',
      ports: 40,
    },
  ]
  for (const { name, refuses, errno, bad, named, word, ports = 1 } of rows) {
    const lines = Math.min(ports, mostLines)
    it(`${name}: other Services are programmed, the health is good, and the refused rule is retried`, async () => {
      const lab = openLab(refuses, errno)
      await lab.deliver(...web, ...bad, synced)
      assert.ok(serves(lab, '10.1.0.1'))
      assert.deepEqual(linesWith(lab.kernel.xtNamespace, word), [])
      const errors = lab.log.find('error', 'Network programming failed').map(({ message }) => message)
      assert.ok(
        errors.some((message) => named.test(message)),
        errors.join('\n'),
      )
      assert.equal(errors.length, lines)
      assert.equal(await failedObjects(lab), `${ports}`)

      await lab.deliver(...shop)
      assert.ok(serves(lab, '10.2.0.1'))
      await lab.clock.advance(120_000)
      assert.ok(lab.isHealthy.ipv4())
      assert.equal(lab.log.find('error', 'Network programming failed').length, lines, 'each is reported once')

      takeAll(lab)
      await lab.clock.advance(30_000)
      assert.notDeepEqual(linesWith(lab.kernel.xtNamespace, word), [])
      assert.equal(lab.log.find('info', 'Network programming recovered').length, lines)
      assert.equal(await failedObjects(lab), '0')
      await lab.stop()
    })

    it(`${name}: its removal leaves nothing behind`, async () => {
      const lab = openLab(refuses, errno)
      await lab.deliver(...web, synced)
      const before = ruleLines(lab.kernel.xtNamespace)
      await lab.deliver(...bad)
      assert.deepEqual(linesWith(lab.kernel.xtNamespace, word), [])
      await lab.deliver(remove('Service', 'bad'))
      await lab.clock.advance(60_000)
      assert.deepEqual(ruleLines(lab.kernel.xtNamespace), before)
      assert.equal(await failedObjects(lab), '0')
      assert.deepEqual(lab.log.find('info', 'Network programming recovered'), [])
      await lab.stop()
    })
  }

  it('is retried with back-off, and at once when it changes', async () => {
    const lab = openLab(({ recent }) => recent !== undefined, EINVAL)
    await lab.deliver(
      ...web,
      set(service('bad', '10.96.0.3', { sessionAffinity: 'ClientIP' })),
      set(slice('bad-1', 'bad', ['10.3.0.1'])),
      synced,
    )
    const nat = lab.kernel.xtables('ipv4', 'nat')
    nat.take()
    await lab.clock.advance(10_000)
    // After 1, 3 and 7 seconds: refused, then written without it.
    assert.equal(nat.applies, 6)
    await lab.deliver(set(service('bad', '10.96.0.3')))
    assert.ok(serves(lab, '10.3.0.1'))
    assert.equal(lab.log.find('info', 'Network programming recovered').length, 1)
    await lab.stop()
  })

  it('waits for a table that cannot be written, which is retried with back-off', async () => {
    const lab = openLab(({ recent }) => recent !== undefined, EINVAL)
    const affinity = service('bad', '10.96.0.3', { sessionAffinity: 'ClientIP' })
    await lab.deliver(...web, set(affinity), set(slice('bad-1', 'bad', ['10.3.0.1'])), synced)
    const nat = lab.kernel.xtables('ipv4', 'nat')
    nat.take()
    nat.plan = { callFault: (call) => (call === 'apply' ? ENOMEM : undefined) }
    await lab.deliver(...shop)
    await lab.clock.advance(60_000)
    // Now and after 1, 3, 7, 15, 31 seconds.
    assert.equal(nat.applies, 6)
    takeAll(lab)
    await lab.clock.advance(60_000)
    assert.ok(serves(lab, '10.2.0.1') && serves(lab, '10.3.0.1'))
    await lab.stop()
  })

  it('among a thousand similar ones: all are found together', async () => {
    const lab = openLab(({ recent }) => recent !== undefined, EINVAL)
    const events = Array.from({ length: 1000 }, (_, i): readonly ObjectEvent[] => {
      const name = `bad-${i}`
      const address = `10.97.${i >> 8}.${i & 0xff}`
      const endpoint = `10.3.${i >> 8}.${i & 0xff}`
      return [
        set(service(name, address, { sessionAffinity: 'ClientIP' })),
        set(slice(`${name}-1`, name, [endpoint])),
      ]
    })
    await lab.deliver(...web, ...events.flat(), synced)
    assert.ok(serves(lab, '10.1.0.1'))
    assert.equal(lab.kernel.xtables('ipv4', 'nat').applies, 2)
    assert.equal(await failedObjects(lab), '1000')
    await lab.stop()
  })

  it('a refused rule of the mode itself is an error of the table', async () => {
    const lab = openLab(({ target }) => target.kind === 'masquerade', EINVAL)
    await lab.deliver(...web, synced)
    assert.ok(!serves(lab, '10.1.0.1'))
    assert.equal(lab.log.find('error', 'IPv4 table nat: ').length, 1)
    await lab.stop()
  })
})

/** The tables of a run that served `web`. The chain MINE of another program jumps to the chain of the Service. */
async function leaveService() {
  const former = new IptablesLab()
  await former.deliver(...web, synced)
  await former.stop()
  const { xtNamespace } = former.kernel
  const nat = xtNamespace.table('ipv4', 'nat')
  const chain = [...nat.chains.keys()].find((name) => name.startsWith('KUBE-SVC-')) ?? ''
  nat.addChain('MINE')
  nat.append('MINE', jumpTo(chain))
  return { xtNamespace, nat, chain }
}

describe('a foreign chain that jumps to a chain of ours', () => {
  it('keeps our chain, empty, after its Service is removed; our chain is removed after the jump', async () => {
    const lab = new IptablesLab()
    await lab.deliver(...web, synced)
    const nat = lab.kernel.xtNamespace.table('ipv4', 'nat')
    const chain = [...nat.chains.keys()].find((name) => name.startsWith('KUBE-SVC-')) ?? ''
    nat.addChain('MINE')
    nat.append('MINE', jumpTo(chain, { source: { address: ip('192.0.2.1'), prefixLength: 32 } }))
    await lab.deliver(remove('Service', 'web'), ...shop)
    assert.ok(serves(lab, '10.2.0.1'))
    assert.deepEqual(nat.chains.get(chain), [])
    const [problem, ...more] = lab.log.find('error', 'Network programming failed')
    assert.equal(
      problem?.message,
      `Network programming failed: a leftover: IPv4 table nat: chain ${chain} stays, empty, as chain MINE jumps to it`,
    )
    assert.deepEqual(more, [])
    await lab.clock.advance(120_000)
    assert.ok(lab.isHealthy.ipv4())
    assert.deepEqual(lab.log.find('info', 'Kernel state differs'), [])

    nat.flush('MINE')
    await lab.clock.advance(2000)
    assert.equal(nat.chains.has(chain), false)
    assert.ok(nat.chains.has('MINE'))
    assert.equal(await failedObjects(lab), '0')
    await lab.stop()
  })

  // The chain kept its rules, was not reported, and stayed after the jump was removed.
  it('keeps our chain, empty, after a restart; our chain is removed after the jump', async () => {
    const { xtNamespace, nat, chain } = await leaveService()
    const start = async (): Promise<IptablesLab> => {
      const lab = new IptablesLab({ xtNamespace })
      await lab.deliver(...shop, synced)
      assert.deepEqual(nat.chains.get(chain), [])
      assert.deepEqual(linesWith(xtNamespace, '10.1.0.1'), [])
      assert.deepEqual(
        lab.log.find('error', 'Network programming failed').map(({ message }) => message),
        [
          `Network programming failed: a leftover: IPv4 table nat: chain ${chain} stays, empty, as chain MINE jumps to it`,
        ],
      )
      return lab
    }
    await (await start()).stop()

    const lab = await start()
    assert.equal(await failedObjects(lab), '1')
    await lab.clock.advance(120_000)
    assert.ok(lab.isHealthy.ipv4())
    assert.deepEqual(lab.log.find('info', 'Kernel state differs'), [])
    nat.flush('MINE')
    await lab.clock.advance(2000)
    assert.equal(nat.chains.has(chain), false)
    assert.ok(nat.chains.has('MINE'))
    assert.equal(await failedObjects(lab), '0')
    await lab.stop()
  })

  it('keeps our chain, empty and reported, if the first write after a restart fails', async () => {
    const { xtNamespace, nat, chain } = await leaveService()
    const lab = new IptablesLab({ xtNamespace })
    const xtables = lab.kernel.xtables('ipv4', 'nat')
    xtables.plan = { callFault: (call) => (call === 'apply' ? ENOMEM : undefined) }
    await lab.deliver(...shop, synced)
    assert.notDeepEqual(nat.chains.get(chain), [])
    xtables.plan = {}
    await lab.clock.advance(30_000)
    assert.deepEqual(nat.chains.get(chain), [])
    assert.equal(lab.log.find('error', `chain ${chain} stays, empty`).length, 1)
    await lab.stop()
  })
})
