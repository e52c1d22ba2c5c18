// The ports of this machine in every mode: node ports that the agent holds, and other programs that have them.
import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { afterEach, describe, it } from 'node:test'
import type { ConfigInput } from '../../src/config/index.js'
import type { Service, ServicePortSpec } from '../../src/source/index.js'
import { openModelKernel, type ModelProgram } from '../model/index.js'
import { node, port, remove, service, set, slice, synced } from '../support/objects.js'
import { ip, PipelineLab } from '../support/pipeline-lab.js'

const modes = ['iptables', 'ipvs', 'nftables'] as const

function nodePort(name: string, number: number, rest: Partial<Service & ServicePortSpec> = {}): Service {
  const { protocol = 'TCP', ...fields } = rest
  const last = number % 250
  return service(name, `10.96.0.${last + 1}`, {
    type: 'NodePort',
    ports: [port(80, { name: 'http', nodePort: number, protocol })],
    ...fields,
  })
}

function program(number: number, rest: Partial<ModelProgram> = {}): ModelProgram {
  return {
    family: 'ipv4',
    protocol: 'tcp',
    address: undefined,
    port: number,
    uid: 33,
    process: { pid: 12, name: 'nginx' },
    ...rest,
  }
}

const labs: PipelineLab[] = []
afterEach(async () => {
  for (const lab of labs.splice(0)) await lab.stop()
})

interface Start {
  readonly mode?: (typeof modes)[number]
  readonly config?: ConfigInput
  readonly kernel?: ReturnType<typeof openModelKernel>
  readonly programs?: readonly ModelProgram[]
}

/** A lab with a node that has 192.0.2.1, before its first events. */
async function open({ mode = 'iptables', config = {}, kernel = openModelKernel(), programs = [] }: Start) {
  const { index } = await kernel.links.addDummy('eth0')
  await kernel.routes.apply([
    { op: 'add-address', address: { address: ip('192.0.2.1'), prefixLength: 24, interfaceIndex: index } },
  ])
  kernel.ports.programs = programs
  const lab = new PipelineLab({ kernel, config: { mode, ...config } })
  labs.push(lab)
  return lab
}

const here = set(node('here', { ips: ['192.0.2.1'] }))

/** The warnings about ports, and their ends, without the start of the line. */
function reports(lab: PipelineLab): readonly string[] {
  return lab.log.lines
    .filter(({ level }) => level === 'warn' || level === 'info')
    .flatMap(({ message }) => /^(?:Service port|Node ports) .*/.exec(message) ?? [])
    .map((line) =>
      line
        .replace(/^Service port is in use by another program: /, 'in use: ')
        .replace(/^.*no longer.*$/, 'free'),
    )
}

function reasons(lab: PipelineLab): readonly string[] {
  return lab.events.map(({ reason, regarding }) => `${reason} ${regarding.namespace ?? ''}/${regarding.name}`)
}

for (const mode of modes) {
  describe(`held ports in ${mode} mode`, () => {
    // nftables mode serves node ports on the node IPs by default.
    const config = { nodePortHolding: true, nodePortAddresses: ['0.0.0.0/0', '::/0'] }

    it('are those of Services, with endpoints or without, until the Services go', async () => {
      const lab = await open({ mode, config })
      await lab.deliver(
        here,
        set(nodePort('web', 30080)),
        set(slice('web-1', 'web', ['10.1.0.1'])),
        set(nodePort('dns', 30053, { protocol: 'UDP' })),
        set(service('internal', '10.96.1.1')),
        synced,
      )
      const { ports } = lab.kernel
      assert.deepEqual(ports.held, ['tcp *:30080', 'udp *:30053'])
      await lab.deliver(set(slice('web-1', 'web', [])))
      await lab.deliver(set(nodePort('dns', 30054, { protocol: 'UDP' })))
      assert.deepEqual(ports.held, ['tcp *:30080', 'udp *:30054'])
      await lab.deliver(remove('Service', 'web'))
      assert.deepEqual(ports.held, ['udp *:30054'])
      assert.deepEqual(reports(lab), [])
    })

    it('leave out localhost where the relay serves node ports', async () => {
      const lab = await open({ mode, config: { ...config, localhostNodePorts: true } })
      const ports = [{ name: 'http', protocol: 'TCP', port: 8080 }] as const
      const endpoints = set(slice('web-1', 'web', ['10.1.0.1'], { ports }))
      await lab.deliver(here, set(nodePort('web', 30080)), endpoints, synced)
      const isRelayed = mode !== 'iptables'
      const { kernel } = lab
      assert.deepEqual(kernel.ports.held, [isRelayed ? 'tcp 192.0.2.1:30080' : 'tcp *:30080'])
      assert.equal(kernel.relay.listeners.size, isRelayed ? 1 : 0)
    })

    it('change only with their Services', async () => {
      const lab = await open({ mode, config })
      await lab.deliver(here, set(nodePort('web', 30080)), synced)
      assert.equal(lab.kernel.ports.batches.take().length, 1)
      await lab.deliver(set(slice('web-1', 'web', ['10.1.0.1'])))
      await lab.deliver(set(service('other', '10.96.1.1')))
      await lab.clock.advance(120_000)
      assert.deepEqual(lab.kernel.ports.batches.take(), [])
      assert.deepEqual(lab.kernel.ports.questions, [])
    })

    it('are on the addresses of the setting', async () => {
      const lab = await open({ mode, config: { ...config, nodePortAddresses: ['192.0.2.0/24'] } })
      await lab.deliver(here, set(nodePort('web', 30080)), synced)
      assert.deepEqual(lab.kernel.ports.held, ['tcp 192.0.2.1:30080'])
    })

    it('are those of external IPs that the machine has', async () => {
      const lab = await open({ mode, config })
      const externalIPs = ['192.0.2.1', '198.51.100.1']
      await lab.deliver(here, set(service('web', '10.96.0.1', { externalIPs })), synced)
      assert.deepEqual(lab.kernel.ports.held, ['tcp 192.0.2.1:80'])
    })

    it('that another program has are reported once, and held when they are free', async () => {
      const lab = await open({ mode, config, programs: [program(30080)] })
      await lab.deliver(here, set(nodePort('web', 30080)), set(nodePort('db', 30081)), synced)
      const line =
        'in use: default/web:http/TCP: tcp *:30080 belongs to nginx, process 12, with the socket tcp *:30080'
      assert.deepEqual(reports(lab), [line])
      assert.deepEqual(reasons(lab), ['ServicePortInUse default/web'])
      assert.deepEqual(lab.kernel.ports.held, ['tcp *:30081'])
      await lab.clock.advance(120_000)
      assert.deepEqual(reports(lab), [line])
      lab.kernel.ports.programs = []
      await lab.clock.advance(60_000)
      assert.deepEqual(reports(lab), [line, 'free'])
      assert.deepEqual(lab.kernel.ports.held, ['tcp *:30080', 'tcp *:30081'])
    })

    it('that an earlier agent stored are kept, except those without a Service', async () => {
      const place = { family: 'ipv4', protocol: 'tcp', address: undefined } as const
      const kernel = openModelKernel({
        storedPorts: [
          { ...place, port: 30080 },
          { ...place, port: 30081 },
        ],
      })
      const lab = await open({ mode, config, kernel })
      await lab.deliver(here, set(nodePort('web', 30080)), { type: 'listed' })
      assert.deepEqual(kernel.ports.held, ['tcp *:30080', 'tcp *:30081'])
      await lab.deliver(synced)
      assert.deepEqual(kernel.ports.held, ['tcp *:30080'])
    })

    it('that an earlier agent stored go without the setting', async () => {
      const stored = { family: 'ipv6', protocol: 'udp', address: undefined, port: 30080 } as const
      const kernel = openModelKernel({ storedPorts: [stored] })
      const lab = await open({ mode, kernel })
      await lab.deliver(here, synced)
      assert.deepEqual(kernel.ports.held, [])
    })
  })

  describe(`other programs on node ports in ${mode} mode`, () => {
    it('are reported once, and their end too', async () => {
      const lab = await open({ mode, programs: [program(30080)] })
      await lab.deliver(here, set(nodePort('web', 30080)), set(nodePort('db', 30081)), synced)
      const line =
        'in use: default/web:http/TCP: tcp *:30080 belongs to nginx, process 12, with the socket tcp *:30080'
      await lab.clock.advance(120_000)
      assert.deepEqual(reports(lab), [line])
      assert.deepEqual(reasons(lab), ['ServicePortInUse default/web'])
      lab.kernel.ports.programs = []
      await lab.clock.advance(60_000)
      assert.deepEqual(reports(lab), [line, 'free'])
      assert.deepEqual(lab.kernel.ports.held, [])
    })

    it('cost one question for all new node ports, and none for other changes', async () => {
      const lab = await open({ mode })
      const { questions } = lab.kernel.ports
      await lab.deliver(here, set(nodePort('web', 30080)), set(nodePort('db', 30081)), synced)
      assert.deepEqual(questions, [
        [
          { protocol: 'tcp', port: 30080 },
          { protocol: 'tcp', port: 30081 },
        ],
      ])
      await lab.deliver(set(slice('web-1', 'web', ['10.1.0.1'])))
      await lab.deliver(set(service('other', '10.96.1.1')), remove('Service', 'db'))
      await lab.clock.advance(120_000)
      assert.equal(questions.length, 1)
      await lab.deliver(set(nodePort('web', 30082)))
      assert.deepEqual(questions.slice(1), [[{ protocol: 'tcp', port: 30082 }]])
    })

    it('are reported at addresses that serve node ports alone', async () => {
      const lab = await open({
        mode,
        config: { nodePortAddresses: ['192.0.2.0/24'] },
        programs: [
          program(30080, { address: ip('192.0.2.1') }),
          program(30081, { address: ip('127.0.0.1') }),
          program(30082, { address: ip('198.51.100.1') }),
        ],
      })
      await lab.deliver(
        here,
        ...[30080, 30081, 30082].map((number) => set(nodePort(`s${number}`, number))),
        synced,
      )
      assert.deepEqual(reasons(lab), ['ServicePortInUse default/s30080'])
    })
  })
}

describe('ports of Services', () => {
  it('report a program that /proc does not show by its user', async () => {
    const lab = await open({ programs: [program(30080, { process: undefined })] })
    await lab.deliver(here, set(nodePort('web', 30080)), synced)
    const [line] = reports(lab)
    assert.match(line ?? '', /belongs to a process of user 33 that \/proc does not show/)
  })

  for (const nodePortHolding of [false, true]) {
    for (const rest of [{ isHeld: true }, { isOwn: true }]) {
      it(`report no ${Object.keys(rest)[0]} socket, with nodePortHolding ${nodePortHolding}`, async () => {
        const lab = await open({ config: { nodePortHolding }, programs: [program(30080, rest)] })
        await lab.deliver(here, set(nodePort('web', 30080)), synced)
        assert.deepEqual([reports(lab), reasons(lab)], [[], []])
        // The former agent ends.
        lab.kernel.ports.programs = []
        await lab.clock.advance(60_000)
        assert.deepEqual(lab.kernel.ports.held, nodePortHolding ? ['tcp *:30080'] : [])
        assert.deepEqual(reports(lab), [])
      })
    }

    it(`forget a report with the Service, with nodePortHolding ${nodePortHolding}`, async () => {
      const lab = await open({ config: { nodePortHolding }, programs: [program(30080)] })
      await lab.deliver(here, set(nodePort('web', 30080)), synced)
      await lab.deliver(remove('Service', 'web'))
      lab.kernel.ports.programs = []
      await lab.clock.advance(60_000)
      assert.equal(reports(lab).length, 1)
    })
  }

  it('are no longer in use when another agent holds them', async () => {
    const lab = await open({ config: { nodePortHolding: true }, programs: [program(30080)] })
    await lab.deliver(here, set(nodePort('web', 30080)), synced)
    lab.kernel.ports.programs = [program(30080, { isHeld: true })]
    await lab.clock.advance(60_000)
    assert.deepEqual(reports(lab).slice(1), ['free'])
  })

  it('that the kernel refuses alike have one report', async () => {
    const lab = await open({ config: { nodePortHolding: true } })
    lab.kernel.ports.batches.plan = {
      fault: ({ place }) => (place.protocol === 'sctp' ? constants.errno.EPROTONOSUPPORT : undefined),
    }
    const services = [30080, 30081, 30082].map((number) =>
      set(nodePort(`s${number}`, number, { protocol: 'SCTP' })),
    )
    await lab.deliver(here, ...services, set(nodePort('web', 30083)), synced)
    await lab.clock.advance(120_000)
    const line =
      'Node ports are not all held or checked: IPv4 ports with EPROTONOSUPPORT: hold: EPROTONOSUPPORT: the kernel has no SCTP sockets'
    assert.deepEqual(reports(lab), [line])
    assert.deepEqual(lab.kernel.ports.held, ['tcp *:30083'])
    lab.kernel.ports.batches.plan = {}
    await lab.clock.advance(60_000)
    assert.deepEqual(reports(lab), [line, 'Node ports are held or checked again'])
    assert.equal(lab.kernel.ports.held.length, 4)
  })

  it('are held by the second Service when the first one goes', async () => {
    const lab = await open({ config: { nodePortHolding: true } })
    await lab.deliver(here, set(nodePort('a', 30080)), set(nodePort('b', 30080)), synced)
    await lab.deliver(remove('Service', 'a'))
    assert.deepEqual(lab.kernel.ports.held, ['tcp *:30080'])
    await lab.deliver(remove('Service', 'b'))
    assert.deepEqual(lab.kernel.ports.held, [])
  })

  it('move with the addresses of the machine', async () => {
    const lab = await open({
      config: { nodePortHolding: true, nodePortAddresses: ['192.0.2.0/24', '198.51.100.0/24'] },
    })
    await lab.deliver(
      here,
      set(nodePort('web', 30080)),
      set(service('x', '10.96.1.1', { externalIPs: ['203.0.113.1'] })),
      synced,
    )
    const [link] = (await lab.kernel.links.list()).filter(({ name }) => name === 'eth0')
    const addressOf = (text: string) => ({
      address: { address: ip(text), prefixLength: 24, interfaceIndex: link?.index ?? 0 },
    })
    await lab.kernel.routes.apply([
      { op: 'add-address', ...addressOf('198.51.100.7') },
      { op: 'add-address', ...addressOf('203.0.113.1') },
      { op: 'remove-address', ...addressOf('192.0.2.1') },
    ])
    await lab.clock.advance(60_000)
    assert.deepEqual(lab.kernel.ports.held, ['tcp 198.51.100.7:30080', 'tcp 203.0.113.1:80'])
  })

  for (const nodePortHolding of [false, true]) {
    it(`wait for a kernel that refuses, with nodePortHolding ${nodePortHolding}`, async () => {
      const lab = await open({ config: { nodePortHolding }, programs: [program(30080)] })
      lab.kernel.ports.batches.plan = { callFault: () => constants.errno.ENOENT }
      await lab.deliver(here, set(nodePort('web', 30080)), synced)
      await lab.clock.advance(60_000)
      const lines = reports(lab)
      assert.ok(lines.length > 0 && lines.every((line) => line.startsWith('Node ports are not all held')))
      assert.equal(new Set(lines).size, lines.length)
      lab.kernel.ports.batches.plan = {}
      await lab.clock.advance(60_000)
      assert.deepEqual(reasons(lab), ['ServicePortInUse default/web'])
      assert.deepEqual(lab.crashes, [])
    })
  }

  it('that the service manager does not store are reported, and sent again', async () => {
    const lab = await open({ config: { nodePortHolding: true } })
    lab.kernel.ports.storeErrno = constants.errno.ECONNREFUSED
    await lab.deliver(here, set(nodePort('web', 30080)), synced)
    const line = 'Node ports are not all held or checked: IPv4 stored ports: store held ports: ECONNREFUSED'
    assert.deepEqual(reports(lab), [line])
    lab.kernel.ports.storeErrno = 0
    await lab.clock.advance(60_000)
    assert.deepEqual(reports(lab), [line, 'Node ports are held or checked again'])
  })
})

it('held ports of external IPs stay while the addresses of the machine cannot be read', async () => {
  const lab = await open({ config: { nodePortHolding: true } })
  await lab.deliver(here, set(service('web', '10.96.0.1', { externalIPs: ['192.0.2.1'] })), synced)
  const { ports, routes } = lab.kernel
  assert.deepEqual(ports.held, ['tcp 192.0.2.1:80'])
  const { EIO } = constants.errno
  routes.batches.plan = { callFault: (call) => (call === 'dumpAddresses' ? EIO : undefined) }
  await lab.deliver(set(service('other', '10.96.0.2', { externalIPs: ['192.0.2.9'] })))
  assert.ok(reports(lab).some((line) => line.includes('addresses of this machine')))
  assert.deepEqual(ports.held, ['tcp 192.0.2.1:80'])
})

it('ports that an earlier agent held are free before userspace mode listens on them', async () => {
  const place = { family: 'ipv4', protocol: 'tcp', address: undefined, port: 30080 } as const
  const kernel = openModelKernel({ storedPorts: [place] })
  const lab = new PipelineLab({ kernel, config: { mode: 'userspace' } })
  labs.push(lab)
  await lab.deliver(here, set(nodePort('web', 30080)), synced)
  assert.deepEqual(kernel.ports.held, [])
  assert.deepEqual(reports(lab), [])
})
