import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import * as fc from 'fast-check'
import { parseManifest } from '../../../src/source/manifests/parse.js'
import type { KubernetesObject } from '../../../src/source/index.js'

function bytes(text: string): Uint8Array {
  return new TextEncoder().encode(text)
}

function objectsOf(text: string, file = 'a.yaml'): readonly KubernetesObject[] {
  const reading = parseManifest(file, bytes(text))
  assert.deepEqual(reading.problems, [])
  assert.ok('objects' in reading)
  return [...reading.objects.values()]
}

function problemsOf(text: string, file = 'a.yaml'): string[] {
  const reading = parseManifest(file, bytes(text))
  return reading.problems.map(({ message }) => message)
}

/** A Service with these lines in its spec, indented by two. */
function serviceYaml(spec: string): string {
  return `apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec:\n${spec.replace(/^/gmu, '  ')}\n`
}

function sliceYaml(rest: string): string {
  const head = 'apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n'
  return `${head}metadata: {name: web-a, labels: {kubernetes.io/service-name: web}}\n${rest}\n`
}

describe('parseManifest: Service', () => {
  it("fills the API server's defaults", () => {
    const [service] = objectsOf(serviceYaml('clusterIP: 10.96.0.10\nports: [{port: 80, targetPort: http}]'))
    assert.deepEqual(service, {
      kind: 'Service',
      namespace: 'default',
      name: 'web',
      labels: {},
      scheduling: {},
      createdSeconds: undefined,
      type: 'ClusterIP',
      clusterIP: '10.96.0.10',
      clusterIPs: ['10.96.0.10'],
      ipFamilies: ['IPv4'],
      ports: [{ name: '', protocol: 'TCP', port: 80, nodePort: 0 }],
      externalIPs: [],
      loadBalancerSourceRanges: [],
      loadBalancerIngress: [],
      sessionAffinity: 'None',
      sessionAffinityTimeoutSeconds: 10800,
      externalTrafficPolicy: 'Cluster',
      internalTrafficPolicy: 'Cluster',
      healthCheckNodePort: 0,
    })
  })

  for (const written of ['null', '2026-13-45', '7', '[2026]'])
    it(`a creationTimestamp of ${written} is unknown, not a problem`, () => {
      const [service] = objectsOf(
        serviceYaml('clusterIP: 10.96.0.10\nports: [{port: 80}]').replace(
          'name: web',
          `name: web, creationTimestamp: ${written}`,
        ),
      )
      assert.ok(service?.kind === 'Service')
      assert.equal(service.createdSeconds, undefined)
    })

  it('reads every supported field', () => {
    const [service] = objectsOf(`
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop, creationTimestamp: 2026-01-01T00:00:07Z, labels: {app: web, service.kubernetes.io/service-proxy-name: other}, annotations: {note: "2026-01-01", viaduct.dev/ipvs-scheduler: mh, viaduct.dev/ipvs-weights: node-a=3}, uid: 1}
spec:
  type: LoadBalancer
  clusterIP: fd00::10
  clusterIPs: ["fd00::10", 10.96.0.010]
  ipFamilies: [IPv6, IPv4]
  ports:
  - {name: http, port: 80, nodePort: 30080, appProtocol: http}
  - {name: dns, port: 53, protocol: UDP}
  externalIPs: [203.0.113.1]
  loadBalancerSourceRanges: [192.0.2.0/24]
  sessionAffinity: ClientIP
  sessionAffinityConfig: {clientIP: {timeoutSeconds: 600}}
  externalTrafficPolicy: Local
  internalTrafficPolicy: Local
  healthCheckNodePort: 32000
status:
  loadBalancer:
    ingress: [{ip: 203.0.113.2, ipMode: Proxy}, {hostname: lb.example}, {ip: 203.0.113.3}]
`)
    assert.deepEqual(service, {
      kind: 'Service',
      namespace: 'shop',
      name: 'web',
      labels: { 'service.kubernetes.io/service-proxy-name': 'other' },
      createdSeconds: Date.UTC(2026, 0, 1, 0, 0, 7) / 1000,
      scheduling: { scheduler: 'mh', schedulerFlags: undefined, weights: 'node-a=3' },
      type: 'LoadBalancer',
      clusterIP: 'fd00::10',
      clusterIPs: ['fd00::10', '10.96.0.010'],
      ipFamilies: ['IPv6', 'IPv4'],
      ports: [
        { name: 'http', protocol: 'TCP', port: 80, nodePort: 30080 },
        { name: 'dns', protocol: 'UDP', port: 53, nodePort: 0 },
      ],
      externalIPs: ['203.0.113.1'],
      loadBalancerSourceRanges: ['192.0.2.0/24'],
      loadBalancerIngress: [
        { ip: '203.0.113.2', ipMode: 'Proxy' },
        { ip: '203.0.113.3', ipMode: 'VIP' },
      ],
      sessionAffinity: 'ClientIP',
      sessionAffinityTimeoutSeconds: 600,
      externalTrafficPolicy: 'Local',
      internalTrafficPolicy: 'Local',
      healthCheckNodePort: 32000,
    })
  })

  const valid = [
    ['no address yet', 'ports: [{port: 80}]'],
    ['headless', 'clusterIP: None\nports: [{port: 80}]'],
    ['headless without ports', 'clusterIP: None'],
    ['an external name', 'type: ExternalName\nexternalName: a.example'],
    ['booleans and numbers as kubectl reads them', 'publishNotReadyAddresses: yes\nports: [{port: 0120}]'],
    ['nulls, which the API takes for absent', 'clusterIP: null\nports: null\ntype: null'],
    ['one number for two protocols', 'ports: [{name: a, port: 53}, {name: b, port: 53, protocol: UDP}]'],
    ['an external IP that is none (kube-proxy skips it)', 'externalIPs: [x]'],
  ]
  for (const [name = '', spec = ''] of valid) {
    it(`accepts ${name}`, () => assert.equal(objectsOf(serviceYaml(spec)).length, 1))
  }

  const at = 'a.yaml: document 1 (Service default/web)'
  const wrong = [
    ['ports: [null]', 'spec.ports[0]: must be a mapping, not null'],
    ['ports: [{port: []}]', 'spec.ports[0].port: must be a whole number from 1 to 65535, not a list'],
    ['ports: [{port: 0}]', 'spec.ports[0].port: must be a whole number from 1 to 65535, not 0'],
    [
      'ports: [{port: "80"}]',
      'spec.ports[0].port: must be a whole number from 1 to 65535, not the text "80"',
    ],
    ['ports: [{port: 80.5}]', 'spec.ports[0].port: must be a whole number from 1 to 65535, not 80.5'],
    ['ports: [{name: http}]', 'spec.ports[0].port: is missing'],
    ['ports: {port: 80}', 'spec.ports: must be a list, not a mapping'],
    ['ports: [80]', 'spec.ports[0]: must be a mapping, not 80'],
    [
      'ports: [{port: 80, protocol: tcp}]',
      'spec.ports[0].protocol: must be TCP, UDP or SCTP, not the text "tcp"',
    ],
    [
      'ports: [{port: 80, nodePort: 65536}]',
      'spec.ports[0].nodePort: must be a whole number from 0 to 65535, not 65536',
    ],
    [
      'ports: [{name: Http, port: 80}]',
      'spec.ports[0].name: must be up to 63 of a-z, 0-9 and "-", not the text "Http"',
    ],
    [
      'ports: [{port: 80}, {name: b, port: 81}]',
      'spec.ports[0].name: is missing: every one of several ports needs a name',
    ],
    [
      'ports: [{name: a, port: 80}, {name: a, port: 81}]',
      'spec.ports[1].name: must be unique: ports[0] is "a" too',
    ],
    [
      'ports: [{name: a, port: 80}, {name: b, port: 80}]',
      'spec.ports[1].port: must be unique: ports[0] is TCP 80 too',
    ],
    [
      'clusterIP: 10.96.0.256',
      'spec.clusterIP: must be an IP address, "" or None, not the text "10.96.0.256"',
    ],
    ['clusterIPs: [10.96.0.1, x]', 'spec.clusterIPs[1]: must be an IP address, "" or None, not the text "x"'],
    [
      'clusterIP: 10.96.0.1\nclusterIPs: [10.96.0.2]',
      'spec.clusterIPs[0]: must equal spec.clusterIP ("10.96.0.1"), not "10.96.0.2"',
    ],
    ['clusterIPs: [10.96.0.1, 10.96.0.2]', 'spec.clusterIPs: must be one address, or one of each IP family'],
    [
      'clusterIP: 10.96.0.1\nipFamilies: [IPv6]',
      'spec.ipFamilies[0]: must be IPv4, the family of spec.clusterIPs[0]',
    ],
    [
      'type: Magic',
      'spec.type: must be ClusterIP, NodePort, LoadBalancer or ExternalName, not the text "Magic"',
    ],
    ['sessionAffinity: Cookie', 'spec.sessionAffinity: must be None or ClientIP, not the text "Cookie"'],
    [
      'sessionAffinityConfig: {clientIP: {timeoutSeconds: 86401}}',
      'spec.sessionAffinityConfig.clientIP.timeoutSeconds: must be a whole number from 1 to 86400, not 86401',
    ],
    [
      'internalTrafficPolicy: local',
      'spec.internalTrafficPolicy: must be Cluster or Local, not the text "local"',
    ],
  ]
  for (const [spec = '', problem] of wrong) {
    it(`refuses ${spec.replaceAll('\n', ', ')}`, () => {
      assert.deepEqual(problemsOf(serviceYaml(spec)), [`${at}: ${problem}`])
    })
  }

  it('refuses a name that is not a DNS label, because rules contain it and have no room for more', () => {
    for (const name of ['a'.repeat(64), 'web.shop']) {
      assert.deepEqual(problemsOf(serviceYaml('ports: [{port: 80}]').replace('name: web', `name: ${name}`)), [
        `a.yaml: document 1 (Service default/${name}): metadata.name: must be up to 63 of a-z, 0-9 and "-", not the text "${name}"`,
      ])
    }
  })
})

describe('parseManifest: EndpointSlice', () => {
  it("fills the API server's defaults, conditions by F-029", () => {
    const [slice] = objectsOf(
      sliceYaml(
        'addressType: IPv4\nports: [{port: 8080}, {name: any}]\nendpoints: [{addresses: [10.0.0.1]}]',
      ),
    )
    assert.deepEqual(slice, {
      kind: 'EndpointSlice',
      namespace: 'default',
      name: 'web-a',
      labels: {},
      serviceName: 'web',
      addressType: 'IPv4',
      lastChangeMs: undefined,
      ports: [
        { name: '', protocol: 'TCP', port: 8080 },
        { name: 'any', protocol: 'TCP', port: undefined },
      ],
      endpoints: [
        {
          address: '10.0.0.1',
          nodeName: undefined,
          conditions: { ready: true, serving: true, terminating: false },
          zoneHints: [],
          nodeHints: [],
        },
      ],
    })
  })

  const times = [
    { text: '2026-01-31T12:00:00.123456789Z', ms: Date.UTC(2026, 0, 31, 12, 0, 0, 123) },
    { text: '2026-01-31T13:00:00+01:00', ms: Date.UTC(2026, 0, 31, 12) },
    { text: 'yesterday', ms: undefined },
  ]
  for (const { text, ms } of times) {
    it(`reads the trigger time: ${text}`, () => {
      const annotation = `endpoints.kubernetes.io/last-change-trigger-time: "${text}"`
      const [slice] = objectsOf(
        `apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: a, annotations: {${annotation}}}\naddressType: IPv4\n`,
      )
      assert.ok(slice?.kind === 'EndpointSlice')
      assert.equal(slice.lastChangeMs, ms)
    })
  }

  it('reads the first address (F-027), node, conditions and hints', () => {
    const [slice] = objectsOf(
      sliceYaml(`
addressType: IPv6
endpoints:
- addresses: ["fd00::1", "fd00::2"]
  nodeName: node-a
  conditions: {ready: false, serving: null, terminating: true}
  hints: {forZones: [{name: west}], forNodes: [{name: node-a}]}`),
    )
    assert.ok(slice?.kind === 'EndpointSlice')
    assert.deepEqual(slice.endpoints, [
      {
        address: 'fd00::1',
        nodeName: 'node-a',
        conditions: { ready: false, serving: true, terminating: true },
        zoneHints: ['west'],
        nodeHints: ['node-a'],
      },
    ])
  })

  const at = 'a.yaml: document 1 (EndpointSlice default/web-a)'
  const wrong = [
    ['ports: []', 'addressType: is missing'],
    ['addressType: IPv5', 'addressType: must be IPv4, IPv6 or FQDN, not the text "IPv5"'],
    [
      'addressType: IPv4\nendpoints: [{addresses: ["fd00::1"]}]',
      'endpoints[0].addresses[0]: must be an IPv4 address, not the text "fd00::1"',
    ],
    ['addressType: IPv4\nendpoints: [{addresses: []}]', 'endpoints[0].addresses: must hold an address'],
    ['addressType: IPv4\nendpoints: [{}]', 'endpoints[0].addresses: is missing'],
    [
      'addressType: IPv4\nendpoints: [{addresses: [10.0.0.1], conditions: {ready: "no"}}]',
      'endpoints[0].conditions.ready: must be true or false, not the text "no"',
    ],
    [
      'addressType: IPv4\nports: [{port: 65536}]',
      'ports[0].port: must be a whole number from 0 to 65535, not 65536',
    ],
  ]
  for (const [rest = '', problem] of wrong) {
    it(`refuses ${rest.replaceAll('\n', ', ')}`, () => {
      assert.deepEqual(problemsOf(sliceYaml(rest)), [`${at}: ${problem}`])
    })
  }
})

describe('parseManifest: Node', () => {
  it('reads the supported fields', () => {
    const [node] = objectsOf(`
apiVersion: v1
kind: Node
metadata: {name: node-a, deletionTimestamp: 2026-01-01T00:00:00Z, labels: {topology.kubernetes.io/zone: west}}
spec: {podCIDR: 10.1.0.0/24, taints: [{key: gone, effect: NoSchedule}]}
status: {addresses: [{type: InternalIP, address: 192.0.2.1}]}`)
    assert.deepEqual(node, {
      kind: 'Node',
      namespace: '',
      name: 'node-a',
      labels: { 'topology.kubernetes.io/zone': 'west' },
      addresses: [{ type: 'InternalIP', address: '192.0.2.1' }],
      podCIDRs: ['10.1.0.0/24'],
      taintKeys: ['gone'],
      deleted: true,
    })
  })
})

describe('parseManifest: files', () => {
  const web = serviceYaml('clusterIP: 10.96.0.10')
  const webJson = '{"apiVersion":"v1","kind":"Service","metadata":{"name":"web"},"spec":{}}'

  const files = [
    {
      name: 'several documents, also empty ones',
      text: `---\n# none\n---\n${web}---\n${web.replace('web', 'api')}---\n`,
    },
    { name: 'JSON', file: 'a.json', text: `[${webJson}]`.slice(1, -1), count: 1 },
    {
      name: 'a List',
      text: `apiVersion: v1\nkind: List\nitems: [${webJson}, ${webJson.replace('web', 'b')}]`,
    },
    {
      name: 'a ServiceList whose items lack their kind',
      text: 'apiVersion: v1\nkind: ServiceList\nitems: [{metadata: {name: a}, spec: {}}, {metadata: {name: b}, spec: {}}]',
    },
    {
      name: 'merge keys',
      text: serviceYaml('ports:\n- &p {name: a, port: 80}\n- {<<: *p, name: b, protocol: UDP}'),
      count: 1,
    },
    { name: 'only comments', text: '# all off\n', count: 0 },
    {
      name: 'the same name in two namespaces',
      text: `${web}---\n${web.replace('name: web', 'name: web, namespace: b')}`,
    },
  ]
  for (const { name, file = 'a.yaml', text, count = 2 } of files) {
    it(`reads ${name}`, () => assert.equal(objectsOf(text, file).length, count))
  }

  it('ignores other kinds and names them', () => {
    const others = [
      'apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}',
      'apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: web}',
      'apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}',
    ]
    const reading = parseManifest('a.yaml', bytes([...others, web].join('\n---\n')))
    assert.ok('objects' in reading)
    assert.equal(reading.objects.size, 1)
    assert.deepEqual(reading.ignored, [
      'document 1 (Deployment shop/web)',
      'document 2 (ClusterRole web)',
      'document 3 (Namespace shop)',
    ])
  })

  const wrong = [
    {
      name: 'an empty file',
      text: '',
      problem: 'a.yaml: is empty: delete the file if its objects are to go',
    },
    {
      name: 'white space only',
      text: ' \n',
      problem: 'a.yaml: is empty: delete the file if its objects are to go',
    },
    {
      name: 'text',
      text: 'hello',
      problem: 'a.yaml: document 1: must be a Kubernetes object (a mapping with apiVersion and kind)',
    },
    {
      name: 'no kind',
      text: 'apiVersion: v1',
      problem: 'a.yaml: document 1: kind: is missing: must be text such as Service',
    },
    {
      name: 'no apiVersion',
      text: 'kind: Service',
      problem: 'a.yaml: document 1: apiVersion: is missing: must be text such as v1',
    },
    {
      name: 'no name',
      text: 'apiVersion: v1\nkind: Service\nmetadata: {}\nspec: {}',
      problem: 'a.yaml: document 1 (Service): metadata.name: is missing',
    },
    {
      name: 'no metadata',
      text: 'apiVersion: v1\nkind: Service\nspec: {}',
      problem: 'a.yaml: document 1 (Service): metadata: is missing',
    },
    {
      name: 'a name with a slash',
      text: web.replace('name: web', 'name: a/b'),
      problem:
        'a.yaml: document 1 (Service default/a/b): metadata.name: must be up to 63 of a-z, 0-9 and "-", not the text "a/b"',
    },
    {
      name: 'a label that is null',
      text: web.replace('name: web', 'name: web, labels: {on: null}'),
      problem:
        'a.yaml: document 1 (Service default/web): metadata.labels.true: must be text (quote it), not null',
    },
    {
      name: 'a label that is not text',
      text: web.replace('name: web', 'name: web, labels: {app.example/on: true}'),
      problem:
        'a.yaml: document 1 (Service default/web): metadata.labels["app.example/on"]: must be text (quote it), not true',
    },
    {
      name: 'a List without items',
      text: 'apiVersion: v1\nkind: List',
      problem: 'a.yaml: document 1 (List): items: must be a list',
    },
    {
      name: 'a bad item',
      text: `apiVersion: v1\nkind: List\nitems: [${webJson}, 1]`,
      problem: 'a.yaml: document 1, item 2: must be a Kubernetes object (a mapping)',
    },
    {
      name: 'a repeated object',
      text: `${web}---\n${web}`,
      problem:
        'a.yaml: document 2 (Service default/web): is in document 1 too, which is the one that counts: an object may be there once',
    },
    {
      name: 'a YAML error',
      text: 'a: [1\nb: 2',
      problem: 'a.yaml, line 2, column 1: missed comma between flow collection entries',
    },
    {
      name: 'a repeated key',
      text: 'a: 1\na: 2',
      problem: 'a.yaml, line 2, column 1: duplicated mapping key',
    },
  ]
  for (const { name, text, problem } of wrong) {
    it(`refuses ${name}`, () => assert.deepEqual(problemsOf(text), [problem]))
  }

  const excess =
    /^a\.yaml, line \d+: the aliases up to here stand for \d+ of \d+ values, more than Kubernetes accepts$/u
  const endpoints = '{addresses: [10.0.0.1]}, '.repeat(15_000)
  const aliases = [
    {
      name: 'an alias that contains itself',
      text: `${web}mine: &a {b: *a}\n`,
      problem: /^a\.yaml, line \d+: an alias contains itself$/u,
    },
    {
      name: 'a list of endpoints that aliases multiply',
      text: `- &list [${endpoints}]\n${'- *list\n'.repeat(6000)}`,
      problem: excess,
    },
    {
      name: 'a Service that aliases multiply',
      text: `kind: List\napiVersion: v1\nitems: [&web ${webJson}, ${'*web, '.repeat(200_000)}]`,
      problem: excess,
    },
  ]
  for (const { name, text, problem } of aliases) {
    it(`refuses ${name}`, () => {
      const problems = problemsOf(text)
      assert.equal(problems.length, 1)
      assert.match(problems[0] ?? '', problem)
    })
  }

  it('names the line of a JSON error', () => {
    assert.deepEqual(problemsOf('{"a": 1,\n"b": }}', 'a.json'), [
      'a.json, line 2, column 7: end of the stream or a document separator is expected',
    ])
  })

  it('refuses bytes that are not UTF-8', () => {
    const reading = parseManifest('a.yaml', Uint8Array.of(0x61, 0xff))
    assert.ok('problems' in reading)
    assert.equal(reading.problems[0]?.message, 'a.yaml: must be UTF-8 text')
  })

  it('names every invalid field of every document', () => {
    const bad = serviceYaml('ports: [{port: 0}]\ntype: x')
    assert.equal(problemsOf(`${bad}---\n${bad.replace('web', 'b')}`).length, 4)
  })

  it('never throws for any bytes', () => {
    fc.assert(fc.property(fc.uint8Array({ maxLength: 200 }), (any) => void parseManifest('a.yaml', any)))
    fc.assert(
      fc.property(fc.json(), (json) => {
        const object = `{"apiVersion":"v1","kind":"Service","metadata":${json},"spec":${json}}`
        void parseManifest('a.json', bytes(object))
      }),
    )
  })
})
