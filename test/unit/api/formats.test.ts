import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import * as fc from 'fast-check'
import { jsonFormat } from '../../../src/api/formats/json-format.js'
import { serviceMessage } from '../../../src/source/kubernetes/messages.js'
import { tryMessage, type Fields } from '../../../src/api/formats/protobuf.js'
import { protobufFormat } from '../../../src/api/formats/protobuf-format.js'
import { resourcesOf, serviceCidrResources, type Resource } from '../../../src/source/kubernetes/resources.js'
import {
  FormatError,
  type ExpectedType,
  type ListEnd,
  type WireFormat,
  type WireObject,
} from '../../../src/api/formats/wire-format.js'
import { parseManifest } from '../../../src/source/manifests/parse.js'
import { anyObject, apiNode, apiService, apiSlice } from '../../support/api-documents.js'
import { shapes, type Document, type Kind } from '../../support/api-shapes.js'
import {
  field,
  frame,
  jsonWriter,
  numberField,
  objectEnvelope,
  protobufOf,
  protobufWriter,
  typedJson,
  varint,
  watchEvent,
} from '../../support/api-writer.js'

const kinds = ['Service', 'EndpointSlice', 'Node', 'ServiceCIDR'] as const
/** Reads a list that comes in chunks of this size. */
function readList(
  format: WireFormat,
  body: Buffer,
  expected: ExpectedType,
  chunkBytes = body.length,
): ListEnd {
  const reader = format.openList(expected)
  const items: WireObject[] = []
  for (let at = 0; at < body.length; at += chunkBytes)
    items.push(...reader.push(body.subarray(at, at + chunkBytes)))
  const end = reader.end()
  return { ...end, items: [...items, ...end.items] }
}

const formats = [
  { name: 'JSON', format: jsonFormat, writer: jsonWriter },
  { name: 'protobuf', format: protobufFormat, writer: protobufWriter },
]

function resource(kind: Kind): Resource {
  const found = [...resourcesOf('node-a'), ...serviceCidrResources].find((one) => one.kind === kind)
  assert.ok(found)
  return found
}

function read(kind: Kind, { document, problem }: WireObject): unknown {
  assert.equal(problem, undefined)
  return resource(kind).read(document)
}

function readProtobuf(kind: Kind, object: Document): unknown {
  const document: Fields = {}
  assert.equal(tryMessage(resource(kind).message, protobufOf(shapes[kind], object), document), undefined)
  return resource(kind).read(document)
}

/** Values that both encodings can express: a null or absent list has a different message from an empty one. */
function readJson(kind: Kind, object: Document): unknown {
  const text = JSON.stringify(typedJson(kind, object))
  return resource(kind).read(JSON.parse(text))
}

function onlyFrame(format: WireFormat, bytes: Buffer): Buffer {
  const [first, ...rest] = format.openSplitter().push(bytes)
  assert.deepEqual(rest, [])
  assert.ok(first)
  return first
}

describe('the formats', () => {
  for (const kind of kinds) {
    it(`read any ${kind} the same from protobuf and from JSON`, () => {
      fc.assert(
        fc.property(anyObject[kind], (object) => {
          assert.deepEqual(readProtobuf(kind, object), readJson(kind, object))
        }),
        { numRuns: 500 },
      )
    })
  }

  const examples = [
    apiService('shop/web', '10.96.0.10', {
      type: 'LoadBalancer',
      ports: [
        { name: 'http', port: 80, nodePort: 30_080 },
        { name: 'dns', protocol: 'UDP', port: 53 },
      ],
      sessionAffinity: 'ClientIP',
      sessionAffinityConfig: { clientIP: { timeoutSeconds: 600 } },
      externalIPs: ['203.0.113.1'],
      loadBalancerSourceRanges: ['192.0.2.0/24'],
      externalTrafficPolicy: 'Local',
      internalTrafficPolicy: 'Local',
      healthCheckNodePort: 32_000,
    }),
    {
      ...apiService('a', '10.96.0.1'),
      status: { loadBalancer: { ingress: [{ ip: '192.0.2.9', ipMode: 'Proxy' }] } },
    },
  ]
  it('read a Service as its manifest reads', () => {
    for (const example of examples) {
      const text = JSON.stringify(typedJson('Service', example))
      const reading = parseManifest('a.json', Buffer.from(text))
      assert.ok('objects' in reading)
      assert.deepEqual([readProtobuf('Service', example)], [...reading.objects.values()])
    }
  })

  it('refuse an object in place of a list, which would delete all objects', () => {
    const type = '"kind":"ServiceList","apiVersion":"v1"'
    const rows = [
      [`{${type},"metadata":{"resourceVersion":"7"},"rows":[]}`, 'the list has no items'],
      [`{${type},"items":[]}`, 'the list has no metadata'],
      ['{"metadata":{"resourceVersion":"7"},"items":[]}', 'the list is without a kind, not v1 ServiceList'],
      [
        '{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"7"},"items":[]}',
        'the list is meta.k8s.io/v1 Table, not v1 ServiceList',
      ],
    ] as const
    for (const [text, message] of rows) {
      assert.throws(
        () => readList(jsonFormat, Buffer.from(text), resource('Service')),
        new FormatError(message),
      )
    }
  })

  // Written by hand from k8s.io/apimachinery's generated.proto: code 503; details with retryAfterSeconds 9 and uid "ab".
  it('read the delay of a Status in protobuf', () => {
    const status = '30f703 2a06 2809 32026162'
    const unknown = `6b387300 120b ${status}`
    const body = Buffer.from(unknown.replaceAll(' ', ''), 'hex')
    const { code, retryAfterSeconds } = protobufFormat.readStatus(body)
    assert.deepEqual({ code, retryAfterSeconds }, { code: 503, retryAfterSeconds: 9 })
  })

  for (const { name, format, writer } of formats) {
    it(`read a list of ${name}`, () => {
      const slices = [apiSlice('a', 'web', ['10.0.0.1']), apiSlice('b', 'web', [])]
      const body = writer.list('EndpointSlice', slices, { resourceVersion: '17', continue: 'next' })
      const { version, continueToken, items } = readList(format, body, resource('EndpointSlice'))
      assert.deepEqual([version, continueToken], ['17', 'next'])
      assert.deepEqual(
        [...items].map((item) => read('EndpointSlice', item)),
        slices.map((slice) => readJson('EndpointSlice', slice)),
      )
    })

    it(`read a list of ${name} that comes in chunks of any size`, () => {
      const slices = [apiSlice('a', 'web', ['10.0.0.1']), apiSlice('b', 'web', []), apiSlice('c', 'web', [])]
      const body = writer.list('EndpointSlice', slices, { resourceVersion: '17', continue: 'next' })
      const whole = readList(format, body, resource('EndpointSlice'))
      for (let chunkBytes = 1; chunkBytes < body.length; chunkBytes++)
        assert.deepEqual(readList(format, body, resource('EndpointSlice'), chunkBytes), whole)
    })

    it(`refuse a list of ${name} that is cut off, or leave it without a version`, () => {
      const page = { resourceVersion: '1', continue: '' }
      const body = writer.list('Service', [apiService('a', '10.96.0.1')], page)
      const whole = readList(format, body, resource('Service'))
      for (let length = 0; length < body.length; length++) {
        try {
          const cut = readList(format, body.subarray(0, length), resource('Service'))
          if (cut.version !== '') assert.deepEqual(cut, whole)
        } catch (error) {
          assert.ok(error instanceof FormatError)
        }
      }
    })

    it(`read an empty list of ${name}`, () => {
      const body = writer.list('Node', [], { resourceVersion: '1', continue: '' })
      const { continueToken, items } = readList(format, body, resource('Node'))
      assert.deepEqual([continueToken, ...items], [''])
    })

    it(`read events of ${name}`, () => {
      for (const type of ['ADDED', 'MODIFIED', 'DELETED', 'BOOKMARK']) {
        const frameOf = onlyFrame(format, writer.event(type, 'Node', apiNode('n')))
        const event = format.readEvent(frameOf, resource('Node'))
        assert.equal(event.type, type)
        assert.ok(event.type !== 'ERROR')
        assert.deepEqual(read('Node', event.object), readJson('Node', apiNode('n')))
      }
    })

    it(`refuse a list of another kind or version in ${name}, empty or not`, () => {
      for (const nodes of [[], [apiNode('n')]]) {
        const body = writer.list('Node', nodes, { resourceVersion: '9', continue: '' })
        const refused = new FormatError('the list is v1 NodeList, not v1 ServiceList')
        assert.throws(() => readList(format, body, resource('Service')), refused)
        const newer = { ...resource('Node'), apiVersion: 'v2' }
        assert.throws(() => readList(format, body, newer), /is v1 NodeList, not v2 NodeList/u)
      }
    })

    it(`refuse an object of another kind in an event of ${name}`, () => {
      for (const type of ['ADDED', 'DELETED', 'BOOKMARK']) {
        const bytes = onlyFrame(format, writer.event(type, 'Node', apiNode('n')))
        assert.throws(
          () => format.readEvent(bytes, resource('EndpointSlice')),
          new FormatError('an object is v1 Node, not discovery.k8s.io/v1 EndpointSlice'),
        )
      }
    })

    it(`read errors of ${name}`, () => {
      const status = {
        code: 429,
        reason: 'TooManyRequests',
        message: 'wait',
        details: { retryAfterSeconds: 3 },
      }
      const expected = {
        code: 429,
        reason: 'TooManyRequests',
        message: 'wait',
        retryAfterSeconds: 3,
        causes: [],
      }
      assert.deepEqual(format.readStatus(writer.status(status)), expected)
      const bytes = onlyFrame(format, writer.event('ERROR', 'Status', status))
      assert.deepEqual(format.readEvent(bytes, resource('Service')), { type: 'ERROR', status: expected })
    })

    it(`refuse bytes that are not ${name}, with one kind of error`, () => {
      fc.assert(
        fc.property(fc.uint8Array({ maxLength: 64 }), (bytes) => {
          const body = Buffer.from(bytes)
          const attempts = [
            () => readList(format, body, resource('Service')),
            () => format.readEvent(body, resource('Service')),
            () => format.readStatus(body),
          ]
          for (const attempt of attempts) assert.throws(attempt, FormatError)
        }),
      )
    })
  }
})

const text = (number: number, value: string): Buffer => field(number, Buffer.from(value))
const port = (...parts: Buffer[]): Buffer => field(2, field(1, Buffer.concat(parts)))
const named = field(1, Buffer.concat([text(1, 'web'), text(3, 'shop')]))

function serviceProblem(...parts: readonly Buffer[]): string {
  const document: Fields = {}
  const problem = tryMessage(serviceMessage, Buffer.concat(parts), document)
  return problem === undefined ? 'none' : `${problem.path}: ${problem.problem}`
}

describe('protobuf', () => {
  it('skips unknown fields of every wire type', () => {
    const fixed64 = Buffer.concat([varint(BigInt(101 * 8 + 1)), Buffer.alloc(8)])
    const fixed32 = Buffer.concat([varint(BigInt(102 * 8 + 5)), Buffer.alloc(4)])
    assert.equal(serviceProblem(numberField(100, -1), fixed64, named, fixed32, text(103, 'x')), 'none')
  })

  it('keeps only the labels and annotations that are read', () => {
    const labels = { 'kubernetes.io/service-name': 'web', app: 'web', 'service.kubernetes.io/headless': '' }
    const document: Fields = {}
    tryMessage(
      resource('EndpointSlice').message,
      protobufOf(shapes.EndpointSlice, { metadata: { name: 'a', labels } }),
      document,
    )
    assert.deepEqual(document['metadata'], {
      name: 'a',
      labels: { 'kubernetes.io/service-name': 'web', 'service.kubernetes.io/headless': '' },
    })
  })

  const malformed = [
    {
      name: 'a number where text belongs',
      bytes: port(numberField(1, 5)),
      problem: 'spec.ports[0].name: must have a length, not be of wire type 0',
    },
    {
      name: 'text where a number belongs',
      bytes: port(text(3, 'x')),
      problem: 'spec.ports[0].port: must be a number, not of wire type 2',
    },
    {
      name: 'a text that goes beyond its message',
      bytes: field(2, Buffer.from([3 * 8 + 2, 9, 0x31])),
      problem: 'spec.clusterIP: is cut off',
    },
    {
      name: 'a number that has no end',
      bytes: field(2, Buffer.from([12 * 8, 0xff])),
      problem: 'spec.healthCheckNodePort: is cut off',
    },
    {
      name: 'a number of eleven bytes',
      bytes: port(varint(3n * 8n), Buffer.alloc(11, 0xff)),
      problem: 'spec.ports[0].port: holds a number of more than 10 bytes',
    },
    {
      name: 'a field of number 0',
      bytes: field(2, Buffer.from([3])),
      problem: 'spec: holds a field of number 0',
    },
    {
      name: 'a group',
      bytes: field(2, Buffer.from([2 * 8 + 3])),
      problem: 'spec: holds a field of wire type 3 (number 2)',
    },
    {
      name: 'a field of an unknown wire type',
      bytes: field(2, Buffer.from([2 * 8 + 7])),
      problem: 'spec: holds a field of wire type 7 (number 2)',
    },
    {
      name: 'an unwanted field that is cut off',
      bytes: field(2, Buffer.from([2 * 8 + 1, 0])),
      problem: 'spec: is cut off',
    },
  ]
  for (const { name, bytes, problem } of malformed) {
    it(`names the field that holds ${name}`, () => assert.equal(serviceProblem(named, bytes), problem))
  }

  it('counts the items of a list', () => {
    const good = text(1, 'a')
    assert.equal(
      serviceProblem(field(2, Buffer.concat([field(1, good), field(1, good), field(1, numberField(1, 1))]))),
      'spec.ports[2].name: must have a length, not be of wire type 0',
    )
  })

  it('keeps the fields before a malformed part, such as the name', () => {
    const document: Fields = {}
    tryMessage(serviceMessage, Buffer.concat([named, Buffer.from([0xff])]), document)
    assert.deepEqual(document, { metadata: { name: 'web', namespace: 'shop' } })
  })

  it('reads numbers as Go does: 32 bits with a sign', () => {
    for (const [written, expected] of [
      [-1, -1],
      [2 ** 31 - 1, 2 ** 31 - 1],
      [-(2 ** 31), -(2 ** 31)],
      [2 ** 32 + 5, 5],
    ] as const) {
      const document: { spec?: { ports?: readonly Fields[] } } = {}
      tryMessage(serviceMessage, port(numberField(3, written)), document)
      assert.equal(document.spec?.ports?.[0]?.['port'], expected)
    }
  })

  it('a malformed item does not affect the other items of a list', () => {
    const body = protobufWriter.list('Service', [apiService('a', '10.96.0.1')], {
      resourceVersion: '5',
      continue: '',
    })
    const bad = field(2, Buffer.from([0xff]))
    // An item is added by a rewrite of the envelope's field `raw`.
    const { items } = readList(protobufFormat, rewrap(body, bad), resource('Service'))
    assert.deepEqual(
      [...items].map(({ problem }) => problem),
      [undefined, { path: '', problem: 'is cut off' }],
    )
  })

  it('gives the objects of a list before its last bytes have come', () => {
    const page = { resourceVersion: '5', continue: '' }
    const services = [apiService('a', '10.96.0.1'), apiService('b', '10.96.0.2')]
    const body = protobufWriter.list('Service', services, page)
    const reader = protobufFormat.openList(resource('Service'))
    assert.equal(reader.push(body.subarray(0, -20)).length, 1)
    assert.equal(reader.push(body.subarray(-20)).length, 1)
    assert.deepEqual(reader.end(), { version: '5', continueToken: '', items: [] })
  })

  it('any bytes give fields or a problem, never another error', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
        tryMessage(serviceMessage, Buffer.from(bytes), {})
      }),
      { numRuns: 2000 },
    )
  })

  it('any cut through a Service gives fields or a problem, and never a wrong name', () => {
    const whole = protobufOf(shapes.Service, apiService('shop/web', '10.96.0.10'))
    for (let length = 0; length < whole.length; length++) {
      const document: { metadata?: { name?: string } } = {}
      tryMessage(serviceMessage, whole.subarray(0, length), document)
      assert.ok([undefined, 'web'].includes(document.metadata?.name))
    }
  })

  it('refuses a body, an event and an object without the magic', () => {
    const node = resource('Node')
    assert.throws(
      () => readList(protobufFormat, Buffer.from('{}'), node),
      /the list is not Kubernetes protobuf/u,
    )
    const event = watchEvent('ADDED', protobufOf(shapes.Node, apiNode('n')))
    assert.throws(() => protobufFormat.readEvent(event, node), /an object is not Kubernetes protobuf/u)
    const unknownType = watchEvent('RENAMED', objectEnvelope('Node', apiNode('n')))
    assert.throws(() => protobufFormat.readEvent(unknownType, node), /unknown type "RENAMED"/u)
    assert.ok(frame(event).length > event.length)
  })
})

/** The body of a list with one more field. */
function rewrap(body: Buffer, more: Buffer): Buffer {
  const envelope: { typeMeta?: Buffer; raw?: Buffer } = {}
  const parts = [undefined, { name: 'typeMeta', read: 'bytes' }, { name: 'raw', read: 'bytes' }] as const
  assert.equal(tryMessage(parts, body.subarray(4), envelope), undefined)
  const { typeMeta = Buffer.alloc(0), raw = Buffer.alloc(0) } = envelope
  return Buffer.concat([Buffer.from('k8s\0'), field(1, typeMeta), field(2, Buffer.concat([raw, more]))])
}
