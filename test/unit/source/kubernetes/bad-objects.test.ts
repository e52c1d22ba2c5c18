import assert from 'node:assert/strict'
import { afterEach, describe, it } from 'node:test'
import { apiNode, apiService, apiSlice } from '../../../support/api-documents.js'
import { documentOf, shapes, type Document, type Kind } from '../../../support/api-shapes.js'
import {
  envelope,
  field,
  frame,
  jsonWriter,
  numberField,
  protobufOf,
  protobufWriter,
  watchEvent,
} from '../../../support/api-writer.js'
import { KubernetesLab } from '../../../support/kubernetes-lab.js'

let lab: KubernetesLab

afterEach(async () => await lab.close())

const encodings = [
  { name: 'protobuf', writer: protobufWriter },
  { name: 'JSON', writer: jsonWriter },
]

interface Case {
  readonly name: string
  readonly kind: Kind
  readonly object: Document
  /** The problem that is logged once; undefined: the object is accepted. */
  readonly problem?: RegExp
  readonly event?: string
}

function serviceWith(spec: Document, metadata: Document = {}): Document {
  const { metadata: plain, ...rest } = apiService('odd', '10.96.0.9', spec)
  return { ...rest, metadata: { ...documentOf(plain), ...metadata } }
}

function portsOf(count: number): readonly Document[] {
  return Array.from({ length: count }, (_, i) => ({ name: `p${i}`, protocol: 'TCP', port: 1 + i }))
}

function sliceWith(rest: Document, endpoint: Document = {}): Document {
  const plain = apiSlice('odd', 'web', [])
  return { ...plain, endpoints: [{ addresses: ['10.0.0.9'], ...endpoint }], ...rest }
}

const service = '+Service default/odd 10.96.0.9'
const slice = '+EndpointSlice default/odd'
const huge = 'x'.repeat(1024 * 1024)

/** Objects that both encodings can express. */
const cases: readonly Case[] = [
  { name: '10,000 ports', kind: 'Service', object: serviceWith({ ports: portsOf(10_000) }), event: service },
  {
    name: 'annotations and labels of 1 MB',
    kind: 'Service',
    object: serviceWith({}, { annotations: { huge }, labels: { huge } }),
    event: service,
  },
  { name: 'no port', kind: 'Service', object: serviceWith({ ports: [] }), event: service },
  {
    name: 'a repeated port number',
    kind: 'Service',
    object: serviceWith({ ports: [...portsOf(1), { name: 'again', protocol: 'TCP', port: 1 }] }),
    problem: /spec\.ports\[1\]\.port: must be unique/u,
  },
  {
    name: 'a repeated port name',
    kind: 'Service',
    object: serviceWith({ ports: [...portsOf(1), { name: 'p0', protocol: 'TCP', port: 2 }] }),
    problem: /spec\.ports\[1\]\.name: must be unique/u,
  },
  {
    name: 'a negative port',
    kind: 'Service',
    object: serviceWith({ ports: [{ name: 'a', port: -80 }] }),
    problem: /spec\.ports\[0\]\.port: must be a whole number from 1 to 65535, not -80$/u,
  },
  {
    name: 'a port beyond 16 bits',
    kind: 'Service',
    object: serviceWith({ ports: [{ name: 'a', port: 65_536 }] }),
    problem: /spec\.ports\[0\]\.port: must be/u,
  },
  {
    name: 'an unknown protocol',
    kind: 'Service',
    object: serviceWith({ ports: [{ name: 'a', port: 80, protocol: 'QUIC' }] }),
    problem: /spec\.ports\[0\]\.protocol: must be TCP, UDP or SCTP, not the text "QUIC"/u,
  },
  {
    name: 'an empty protocol',
    kind: 'Service',
    object: serviceWith({ ports: [{ name: 'a', port: 80, protocol: '' }] }),
    event: service,
  },
  {
    name: 'an unknown type',
    kind: 'Service',
    object: serviceWith({ type: 'Mesh' }),
    problem: /spec\.type: must be ClusterIP, NodePort, LoadBalancer or ExternalName/u,
  },
  {
    name: 'an unknown policy',
    kind: 'Service',
    object: serviceWith({ externalTrafficPolicy: 'Zone' }),
    problem: /spec\.externalTrafficPolicy: must be Cluster or Local/u,
  },
  {
    name: 'a negative affinity time-out',
    kind: 'Service',
    object: serviceWith({ sessionAffinityConfig: { clientIP: { timeoutSeconds: -1 } } }),
    problem: /timeoutSeconds: must be a whole number from 1 to 86400/u,
  },
  {
    name: 'a name of 10,000 characters',
    kind: 'Service',
    object: serviceWith({}, { name: 'n'.repeat(10_000) }),
    problem: /metadata\.name: must be up to 63/u,
  },
  {
    name: 'a thousand wrong ports, of which five are logged',
    kind: 'Service',
    object: serviceWith({ ports: portsOf(1000).map((port) => ({ ...port, nodePort: -1 })) }),
    problem: /nodePort: .*; and 995 more$/u,
  },
  {
    name: 'a protocol that is nil (Q-21)',
    kind: 'EndpointSlice',
    object: sliceWith({ ports: [{ name: 'http', port: 8080 }] }),
    event: slice,
  },
  { name: 'no port', kind: 'EndpointSlice', object: sliceWith({ ports: [] }), event: slice },
  {
    name: 'a port that is nil',
    kind: 'EndpointSlice',
    object: sliceWith({ ports: [{ name: 'http', protocol: 'TCP' }] }),
    event: slice,
  },
  {
    name: 'an unknown type of addresses',
    kind: 'EndpointSlice',
    object: sliceWith({ addressType: 'MAC' }),
    problem: /addressType: must be IPv4, IPv6 or FQDN/u,
  },
  {
    name: 'an address of the other family',
    kind: 'EndpointSlice',
    object: sliceWith({}, { addresses: ['fd00::9'] }),
    problem: /endpoints\[0\]\.addresses\[0\]: must be an IPv4 address/u,
  },
  {
    name: 'an endpoint without an address',
    kind: 'EndpointSlice',
    object: sliceWith({}, { addresses: [] }),
    problem: /endpoints\[0\]\.addresses: must hold an address|endpoints\[0\]\.addresses: is missing/u,
  },
  {
    name: 'an invalid time',
    kind: 'EndpointSlice',
    object: {
      ...sliceWith({}),
      metadata: {
        ...documentOf(sliceWith({})['metadata']),
        annotations: { 'endpoints.kubernetes.io/last-change-trigger-time': 'long ago' },
      },
    },
    event: slice,
  },
]

describe('an unusual object among others', () => {
  for (const { name: encoding, writer } of encodings) {
    for (const { name, kind, object, problem, event } of cases) {
      it(`is accepted or reported, and does not affect other objects: ${kind} with ${name}, ${encoding}`, async () => {
        lab = new KubernetesLab({ writer })
        lab.server.store.put(kind, object)
        lab.server.store.put('Service', apiService('zz', '10.96.0.8'))
        await lab.start()
        assert.ok(lab.events.includes('+Service default/zz 10.96.0.8'))
        assert.ok(lab.events.includes('+EndpointSlice default/web-1'))
        const logged = lab.log.filter((line) => line.startsWith('object: '))
        if (problem === undefined) assert.deepEqual(logged, [])
        else assert.match(logged.join('\n'), problem)
        assert.equal(logged.length, problem === undefined ? 0 : 1)
        if (event !== undefined) assert.ok(lab.events.includes(event))
        assert.equal(lab.events.at(-1), problem === undefined ? 'synced' : 'listed')
        // The watch delivers the same object again. It is not logged twice.
        lab.server.store.put(kind, object)
        lab.server.store.put('Node', apiNode('node-a', '10.9.0.0/24'))
        lab.server.store.put('Service', apiService('zzz', '10.96.0.7'))
        await lab.until(() => lab.events.includes('+Service default/zzz 10.96.0.7'))
        assert.equal(lab.log.filter((line) => line.startsWith('object: ')).length, logged.length)
        for (const line of logged) assert.ok(line.length < 1000)
      })
    }
  }
})

/** Objects that only one of the encodings can express, in an event MODIFIED. */
const raw: readonly { name: string; writer: typeof jsonWriter; bytes: Buffer; problem: RegExp }[] = [
  {
    name: 'text where a list belongs',
    writer: jsonWriter,
    bytes: jsonEvent({ spec: { clusterIP: '10.96.0.9', ports: 'all' } }),
    problem: /spec\.ports: must be a list, not the text "all"/u,
  },
  {
    name: 'a number where text belongs',
    writer: jsonWriter,
    bytes: jsonEvent({ spec: { clusterIP: 10, ports: [] } }),
    problem: /spec\.clusterIP: must be an IP address, "" or None, not 10$/u,
  },
  {
    name: 'a port of 1e300',
    writer: jsonWriter,
    bytes: jsonEvent({ spec: { clusterIP: '10.96.0.9', ports: [{ port: 1e300 }] } }),
    problem: /spec\.ports\[0\]\.port: must be a whole number/u,
  },
  {
    name: 'no spec',
    writer: jsonWriter,
    bytes: jsonEvent({}),
    problem: /spec: is missing/u,
  },
  {
    name: 'text that is not UTF-8, in JSON',
    writer: jsonWriter,
    bytes: Buffer.from(
      jsonEvent({ spec: { clusterIP: '10.96.0.9', type: 'Clu\u00e9' } }).toString('latin1'),
      'latin1',
    ),
    problem: /spec\.type: must be/u,
  },
  {
    name: 'text that is not UTF-8, in protobuf',
    writer: protobufWriter,
    bytes: protobufEvent(field(2, field(4, Buffer.from([0xc3, 0x28])))),
    problem: /spec\.type: must be/u,
  },
  {
    name: 'a number where a list of messages belongs',
    writer: protobufWriter,
    bytes: protobufEvent(field(2, numberField(1, 7))),
    problem: /spec\.ports\[0\]: must have a length, not be of wire type 0/u,
  },
]

function jsonEvent(rest: Document): Buffer {
  const object = {
    kind: 'Service',
    apiVersion: 'v1',
    metadata: { name: 'odd', namespace: 'default' },
    ...rest,
  }
  return Buffer.from(`${JSON.stringify({ type: 'MODIFIED', object })}\n`)
}

function protobufEvent(more: Buffer): Buffer {
  const plain = protobufOf(shapes.Service, apiService('odd', '10.96.0.9'))
  return frame(watchEvent('MODIFIED', envelope('Service', 'v1', Buffer.concat([plain, more]))))
}

describe('an invalid object in a watch', () => {
  for (const { name, writer, bytes, problem } of raw) {
    it(`is reported once, and keeps its last valid state: ${name}`, async () => {
      lab = new KubernetesLab({ writer })
      lab.server.store.put('Service', apiService('odd', '10.96.0.9'))
      await lab.start()
      await lab.untilFollowing()
      lab.events.length = 0
      lab.server.sendBytes('Service', Buffer.concat([bytes, bytes]))
      lab.server.store.put('Service', apiService('next', '10.96.0.8'))
      assert.deepEqual(await lab.untilEvent('+Service default/next 10.96.0.8'), [
        '+Service default/next 10.96.0.8',
      ])
      assert.equal(lab.log.length, 1)
      assert.match(lab.log.join('\n'), new RegExp(`^object: Service default/odd: .*${problem.source}`, 'u'))
    })
  }
})
