// Connections to a backend that leaves its Service, in ipvs mode. Runs in the guest: it needs IP_VS.
import assert from 'node:assert/strict'
import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { connect, Namespace, setSysctls } from '../support/namespaces.js'
import { Prober, type ProbeOutcome, type ProbeTarget } from '../support/probes.js'
import { eventually } from '../support/traffic.js'
import { AgentProcess } from '../traffic/agent-process.js'
import { virtualServers } from '../traffic/node-state.js'

type Protocol = ProbeTarget['protocol']

interface Case {
  readonly name: string
  readonly protocol: Protocol
  readonly address: string
  readonly affinity?: boolean
}

/** Services, each with its own two pods on port 8080. */
const services = {
  tcp: { name: 'tcp', protocol: 'TCP', address: '10.96.0.1' },
  tcp6: { name: 'tcp6', protocol: 'TCP', address: 'fd00:10:96::1' },
  sctp: { name: 'sctp', protocol: 'SCTP', address: '10.96.0.2' },
  udp: { name: 'udp', protocol: 'UDP', address: '10.96.0.3' },
  udp6: { name: 'udp6', protocol: 'UDP', address: 'fd00:10:96::3' },
  sticky: { name: 'sticky', protocol: 'TCP', address: '10.96.0.4', affinity: true },
  stickyUdp: { name: 'sticky-udp', protocol: 'UDP', address: '10.96.0.5', affinity: true },
  dead: { name: 'dead', protocol: 'TCP', address: '10.96.0.6' },
  back: { name: 'back', protocol: 'TCP', address: '10.96.0.7' },
  reuse: { name: 'reuse', protocol: 'TCP', address: '10.96.0.8' },
  unready: { name: 'unready', protocol: 'TCP', address: '10.96.0.9' },
  unreadyUdp: { name: 'unready-udp', protocol: 'UDP', address: '10.96.0.10' },
  unreachable: { name: 'unreachable', protocol: 'TCP', address: '10.96.0.11' },
  unreachable6: { name: 'unreachable6', protocol: 'TCP', address: 'fd00:10:96::11' },
  unreadyUdp6: { name: 'unready-udp6', protocol: 'UDP', address: 'fd00:10:96::10' },
} as const satisfies Readonly<Record<string, Case>>
const cases: readonly Case[] = Object.values(services)
/** Services of which a pod dies, and what a client of a dead pod gets: nothing, or "host unreachable" from the node. */
const deaths = [
  { of: services.dead, death: 'silent' },
  { of: services.unreachable, death: 'unreachable' },
  { of: services.unreachable6, death: 'unreachable' },
] as const

const answerMs = 60_000
const silenceMs = 3000
/**
 * A UDP flow of one request ends in conntrack after 30 s. At an unready pod the next request is then a new client, which is refused. On a busy
 * machine the guest takes longer than that from one request to the next.
 */
const flags = ['--conntrack-udp-timeout=10m', '--conntrack-udp-timeout-stream=10m']
/**
 * The agent takes a backend for dead after three unanswered requests since its first look without an answer. If nothing answers, TCP
 * repeats a request 26, 51, 102 and 204 s after the first. If a busy machine delays that look, the next repetition counts, which is later.
 */
const deathMs = 400_000

let folder: string
let client: Namespace
let node: Namespace
let pods: Namespace
let clients: Prober
let agent: AgentProcess
/** The longest cases, by Service. They run at the same time as the others. */
const dying = new Map<Case, ReturnType<typeof askDying>>()
/** The remaining pods of Services whose other pod had a connection that has ended. */
const left = new Map<Case, string>()

function isIpv6({ address }: Case): boolean {
  return address.includes(':')
}

function podsOf(of: Case): readonly [string, string] {
  const number = cases.indexOf(of) + 1
  return isIpv6(of)
    ? [`fd00:10:244::${number}:1`, `fd00:10:244::${number}:2`]
    : [`10.244.${number}.1`, `10.244.${number}.2`]
}

function targetOf({ protocol, address }: Case): ProbeTarget {
  return { protocol, address, port: 80 }
}

/** Writes the Service with these ready and unready pods, like an editor: renames a new file over the old one. */
async function publish(
  of: Case,
  addresses: readonly string[],
  unready: readonly string[] = [],
): Promise<void> {
  const { name, protocol, address, affinity } = of
  const metadata = { namespace: 'default', name }
  const family = isIpv6(of) ? 'IPv6' : 'IPv4'
  const items = [
    {
      apiVersion: 'v1',
      kind: 'Service',
      metadata,
      spec: {
        clusterIP: address,
        clusterIPs: [address],
        ipFamilies: [family],
        ports: [{ port: 80, protocol }],
        ...(affinity === true ? { sessionAffinity: 'ClientIP' } : {}),
      },
    },
    {
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: { ...metadata, labels: { 'kubernetes.io/service-name': name } },
      addressType: family,
      ports: [{ port: 8080, protocol }],
      endpoints: [...addresses, ...unready].map((text) => ({
        addresses: [text],
        conditions: { ready: addresses.includes(text), serving: addresses.includes(text) },
      })),
    },
  ]
  // One draft per Service, because some cases run at the same time.
  const draft = join(folder, `edited-${name}`)
  await writeFile(draft, JSON.stringify({ apiVersion: 'v1', kind: 'List', items }))
  await rename(draft, join(folder, `manifests/${name}.json`))
}

async function startAgent(): Promise<AgentProcess> {
  const started = AgentProcess.start({ node, manifests: join(folder, 'manifests'), flags })
  await started.synced()
  return started
}

/** Weights of the Service's real servers by address, from ipvsadm. */
async function weights(of: Case): Promise<Readonly<Record<string, string>>> {
  const place = `-${of.protocol === 'UDP' ? 'u' : 't'} ${isIpv6(of) ? `[${of.address}]` : of.address}:80 `
  const sctp = `--sctp-service ${of.address}:80 `
  const found = (await virtualServers(node)).flatMap((line) => {
    const isOurs = line.includes(of.protocol === 'SCTP' ? sctp : place)
    const parts = /-r \[?([0-9a-f.:]+?)\]?:8080 -m -w (\d+)/.exec(line)
    return isOurs && parts !== null ? [[parts[1] ?? '', parts[2] ?? ''] as const] : []
  })
  return Object.fromEntries(found)
}

async function expectWeights(
  of: Case,
  expected: Readonly<Record<string, string>>,
  limitMs = 60_000,
): Promise<void> {
  const text = JSON.stringify(expected, Object.keys(expected).toSorted())
  const read = async (): Promise<string> => {
    const found = await weights(of)
    return JSON.stringify(found, Object.keys(found).toSorted())
  }
  await eventually(read, (found) => found === text, limitMs)
}

/** The address of the pod that answered. */
function answerer(outcome: ProbeOutcome): string {
  assert.equal(outcome.kind, 'answer', JSON.stringify(outcome))
  return outcome.kind === 'answer' ? (outcome.by.split(' ')[0] ?? '') : ''
}

async function askNew(of: Case): Promise<string> {
  return answerer(await clients.probe(targetOf(of), answerMs))
}

async function ask(session: string, of: Case): Promise<string> {
  return answerer(await clients.ask(session, targetOf(of), answerMs))
}

/**
 * A pod with two open connections dies and leaves its Service. One client sends a request without an answer until the real server is
 * removed. Resolves with the outcome of the other client's first request after that.
 */
async function askDying(
  of: Case,
  death: 'silent' | 'unreachable',
): Promise<{ readonly outcome: ProbeOutcome; readonly afterMs: number }> {
  const [first, second, third] = ['first', 'second', 'third'].map((name) => `${of.name} ${name}`)
  const [chosen, other] = await openSession(first ?? '', of)
  const sessions = [second ?? '', third ?? '']
  const answerers = [await ask(second ?? '', of), await ask(third ?? '', of)]
  const patient = sessions[answerers.indexOf(chosen)] ?? ''
  if (death === 'silent')
    await node.ip(`neigh replace ${chosen} lladdr ${await linkAddress()} dev pods0 nud permanent`)
  await pods.ip(`address del ${chosen}/${isIpv6(of) ? 64 : 16} dev eth0`)
  if (death === 'unreachable') await node.ip(`neigh flush to ${chosen} dev pods0`)
  await publish(of, [other])
  await expectWeights(of, { [chosen]: '0', [other]: '1' })
  const started = performance.now()
  // A client that gave up earlier would leave the real server to the other one, which sends nothing.
  const unanswered = clients.ask(first ?? '', targetOf(of), deathMs)
  await expectWeights(of, { [other]: '1' }, deathMs)
  const afterMs = performance.now() - started
  await unanswered
  return { outcome: await clients.ask(patient, targetOf(of), answerMs), afterMs }
}

/** The link-layer address of the pods. */
async function linkAddress(): Promise<string> {
  const text = await pods.must('ip', 'link', 'show', 'eth0')
  return /link\/ether (\S+)/.exec(text)?.[1] ?? assert.fail(text)
}

/** The pod that answers the session, and the other one. */
async function openSession(session: string, of: Case): Promise<readonly [string, string]> {
  const [first, second] = podsOf(of)
  const chosen = await ask(session, of)
  assert.ok(chosen === first || chosen === second, chosen)
  return [chosen, chosen === first ? second : first]
}

describe('graceful termination', { timeout: 1_200_000 }, () => {
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'viaduct-graceful-'))
    await mkdir(join(folder, 'manifests'))
    client = await Namespace.create('client')
    node = await Namespace.create('node-a')
    pods = await Namespace.create('pods')
    await connect(
      { namespace: client, interfaceName: 'eth0', addresses: ['192.168.50.10/24', 'fd00:192::10/64'] },
      { namespace: node, interfaceName: 'eth0', addresses: ['192.168.50.1/24', 'fd00:192::1/64'] },
    )
    const addresses = cases.flatMap(podsOf)
    await connect(
      { namespace: node, interfaceName: 'pods0', addresses: ['10.244.0.254/16', 'fd00:10:244::fe/64'] },
      {
        namespace: pods,
        interfaceName: 'eth0',
        addresses: addresses.map((address) => `${address}/${address.includes(':') ? 64 : 16}`),
      },
    )
    await setSysctls(node, 'net.ipv4.ip_forward=1', 'net.ipv6.conf.all.forwarding=1')
    // The errors about dead pods would use up the rate of all errors to this client, and a refusal would not reach it.
    await setSysctls(node, 'net.ipv4.icmp_ratelimit=0', 'net.ipv6.icmp.ratelimit=0')
    await client.ip('route add default via 192.168.50.1', 'route add default via fd00:192::1')
    await pods.ip('route add default via 10.244.0.254', 'route add default via fd00:10:244::fe')
    await new Prober(pods).serve(
      cases.flatMap((of) => podsOf(of).map((address) => ({ protocol: of.protocol, address, port: 8080 }))),
    )
    clients = new Prober(client)
    for (const of of cases) await publish(of, podsOf(of))
    agent = await startAgent()
    for (const { of, death } of deaths) dying.set(of, askDying(of, death))
  })
  after(async () => {
    await agent.terminate()
    await Promise.all([client, node, pods].map((namespace) => namespace.close()))
    await rm(folder, { recursive: true })
  })

  for (const of of [services.tcp, services.tcp6, services.sctp]) {
    it(`${of.name}: a connection continues after its endpoint left the Service`, async () => {
      const [chosen, other] = await openSession(of.name, of)
      await publish(of, [other])
      await expectWeights(of, { [chosen]: '0', [other]: '1' })
      for (let i = 0; i < 4; i++) assert.equal(await askNew(of), other)
      assert.equal(await ask(of.name, of), chosen)
      await clients.close(of.name)
      left.set(of, other)
    })
  }

  for (const of of [services.udp, services.udp6]) {
    it(`${of.name}: another pod answers a client with the same socket at once`, async () => {
      const [chosen, other] = await openSession(of.name, of)
      await publish(of, [other])
      await expectWeights(of, { [other]: '1' })
      const outcomes: ProbeOutcome[] = []
      for (let i = 0; i < 5; i++) outcomes.push(await clients.ask(of.name, targetOf(of), silenceMs))
      const lost = outcomes.filter(({ kind }) => kind !== 'answer').length
      assert.ok(lost <= 1, `${chosen} left; ${JSON.stringify(outcomes)}`)
      assert.deepEqual([...new Set(outcomes.slice(1).map(answerer))], [other])
    })
  }

  for (const of of [services.unready, services.unreadyUdp, services.unreadyUdp6]) {
    it(`${of.name}: a client stays with an unready pod while no pod serves`, async () => {
      const [chosen, other] = await openSession(of.name, of)
      await publish(of, [], [chosen, other])
      // The other pod has no client, so its real server is removed at once.
      await expectWeights(of, { [chosen]: '0' })
      for (let i = 0; i < 3; i++) assert.equal(await ask(of.name, of), chosen)
      assert.equal((await clients.probe(targetOf(of), answerMs)).kind, 'refused')
      await publish(of, [chosen], [other])
      await expectWeights(of, { [chosen]: '1' })
      assert.equal(await ask(of.name, of), chosen)
      await publish(of, [other], [chosen])
      await expectWeights(of, of.protocol === 'UDP' ? { [other]: '1' } : { [chosen]: '0', [other]: '1' })
      assert.equal(await askNew(of), other)
    })
  }

  it('session affinity: the next connection goes to a remaining pod, the open one stays', async () => {
    const of = services.sticky
    const [chosen, other] = await openSession('sticky', of)
    for (let i = 0; i < 3; i++) assert.equal(await askNew(of), chosen)
    await publish(of, [other])
    await expectWeights(of, { [chosen]: '0', [other]: '1' })
    for (let i = 0; i < 3; i++) assert.equal(await askNew(of), other)
    assert.equal(await ask('sticky', of), chosen)
    await publish(of, podsOf(of))
    await expectWeights(of, { [chosen]: '1', [other]: '1' })
    assert.equal(await askNew(of), other, 'and stays there')
  })

  it('session affinity by UDP: another pod answers the client at once', async () => {
    const of = services.stickyUdp
    const [, other] = await openSession('sticky-udp', of)
    await publish(of, [other])
    await expectWeights(of, { [other]: '1' })
    const outcomes: ProbeOutcome[] = []
    for (let i = 0; i < 3; i++) outcomes.push(await clients.ask('sticky-udp', targetOf(of), silenceMs))
    assert.deepEqual([...new Set(outcomes.slice(1).map(answerer))], [other])
    assert.equal(await askNew(of), other)
  })

  it('a client that reuses its port while its old backend drains reaches another backend', async () => {
    const of = services.reuse
    const target = { ...targetOf(of), sourcePort: 5000 }
    const first = answerer(await clients.ask('reuse', target, answerMs))
    const other = podsOf(of).find((address) => address !== first) ?? ''
    await publish(of, [other])
    await expectWeights(of, { [first]: '0', [other]: '1' })
    await clients.close('reuse')
    for (let i = 0; i < 2; i++) assert.equal(answerer(await clients.probe(target, answerMs)), other)
  })

  for (const { of, death } of deaths)
    it(`an open connection to a dead pod is reset: ${of.name}, ${death}`, async (context) => {
      const { outcome, afterMs } = (await dying.get(of)) ?? assert.fail('it was not begun')
      assert.deepEqual(outcome, { kind: 'error', code: 'ECONNRESET' })
      context.diagnostic(`the real server went after ${Math.round(afterMs / 1000)} s`)
      const answerers = [await askNew(of), await askNew(of)]
      assert.equal(new Set(answerers).size, 1)
      await expectWeights(of, { [answerers[0] ?? '']: '1' })
    })

  it('after a kill: a real server drains on, and gets its weight back with its endpoint', async () => {
    const of = services.back
    const [chosen, other] = await openSession('back', of)
    await publish(of, [other])
    await expectWeights(of, { [chosen]: '0', [other]: '1' })
    await agent.kill()
    agent = await startAgent()
    assert.deepEqual(await weights(of), { [chosen]: '0', [other]: '1' })
    assert.equal(await ask('back', of), chosen)
    await agent.kill()
    await publish(of, [chosen])
    agent = await startAgent()
    await expectWeights(of, { [chosen]: '1' })
    assert.equal(await ask('back', of), chosen)
    assert.equal(await askNew(of), chosen)
  })

  it('real servers are removed after their last connection', async () => {
    assert.equal(left.size, 3)
    // The kernel remembers an SCTP association for a minute after its end.
    for (const [of, other] of left) await expectWeights(of, { [other]: '1' }, 120_000)
  })
})
