// deploy/helm makes the same objects as deploy/kubernetes. Both are rendered by the real programs, which the suite builds
// (scripts/packages/tools.mjs).
import assert from 'node:assert/strict'
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { load, loadAll } from 'js-yaml'
import { buildKustomization } from '../support/kustomization.js'
import { mustRun, runToEnd, type Finished } from '../support/processes.js'
import { treeRoot, treeText } from '../support/tree.js'

interface KubernetesObject {
  readonly kind: string
  readonly metadata: { readonly name: string; readonly annotations?: unknown }
  readonly data?: Readonly<Record<string, string>>
}

const [helm, kustomize] = ['VIADUCT_HELM', 'VIADUCT_KUSTOMIZE'].map((name) => {
  const value = process.env[name]
  assert.ok(value !== undefined, `${name} is set by the packages suite`)
  return value
})
assert.ok(helm !== undefined && kustomize !== undefined)
const chart = join(treeRoot, 'deploy/helm/viaduct')
const atPlaceholder = ['--set', 'apiServer.host=control-plane.example']

function valuesOf(name: string): readonly string[] {
  return ['--values', join(treeRoot, `deploy/helm/values/${name}.yaml`)]
}

function template(...args: readonly string[]): Promise<Finished> {
  return runToEnd([helm ?? '', 'template', 'viaduct', chart, '--namespace', 'kube-system', ...args])
}

async function rendered(...args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await template(...args)
  assert.equal(code, 0, stderr)
  return stdout
}

/** The objects by kind and name: configuration as values instead of texts, and names without the hash of their content. */
function objectsOf(text: string): Readonly<Record<string, unknown>> {
  const withoutHashes = text.replaceAll(/\b(viaduct|viaduct-api-server)-[a-z0-9]{10}$/gmu, '$1')
  const objects: readonly KubernetesObject[] = JSON.parse(JSON.stringify(loadAll(withoutHashes)))
  return Object.fromEntries(
    objects.map((object) => [`${object.kind} ${object.metadata.name}`, parsed(object)]),
  )
}

function parsed(object: KubernetesObject): unknown {
  const { annotations: _keep, ...metadata } = object.metadata
  const data = object.data && {
    data: Object.fromEntries(Object.entries(object.data).map(([key, text]) => [key, loadAll(text)])),
  }
  return object.kind === 'ConfigMap' ? { ...object, metadata, ...data } : object
}

const variants = [
  { folder: 'base', values: [...valuesOf('base'), ...atPlaceholder] },
  { folder: 'overlays/split-init', values: atPlaceholder },
  { folder: 'overlays/ipvs', values: [...valuesOf('ipvs'), ...atPlaceholder] },
  { folder: 'overlays/nftables', values: [...valuesOf('nftables'), ...atPlaceholder] },
  { folder: 'overlays/iptables', values: [...valuesOf('iptables'), ...atPlaceholder] },
  { folder: 'overlays/userspace', values: [...valuesOf('userspace'), ...atPlaceholder] },
  { folder: 'overlays/kubeadm', values: valuesOf('kubeadm') },
]

describe('the chart', () => {
  it('has values for each overlay', () => {
    const folders = readdirSync(join(treeRoot, 'deploy/kubernetes/overlays'))
    const compared = variants.map(({ folder }) => folder).toSorted()
    assert.deepEqual(compared, ['base', ...folders.map((name) => `overlays/${name}`)].toSorted())
  })

  for (const { folder, values } of variants) {
    it(`makes the objects of deploy/kubernetes/${folder}`, async () => {
      const built = objectsOf(
        await mustRun([kustomize, 'build', join(treeRoot, 'deploy/kubernetes', folder)]),
      )
      assert.ok(Object.keys(built).length >= 3)
      assert.deepEqual(objectsOf(await rendered(...values)), built)
    })

    it(`passes helm lint with the values of ${folder}`, async () => {
      await mustRun([helm, 'lint', '--strict', chart, ...values])
    })
  }

  it('has the version of the program', () => {
    const { version }: { readonly version: string } = JSON.parse(treeText('package.json'))
    assert.match(
      treeText('deploy/helm/viaduct/Chart.yaml'),
      new RegExp(`^version: ${version}\nappVersion: ${version}$`, 'mu'),
    )
  })

  it('has another name for a ConfigMap with other content, and keeps the former one', async () => {
    const texts = await Promise.all(
      ['iptables', 'ipvs'].map((name) => rendered(...valuesOf(name), ...atPlaceholder)),
    )
    const names = texts.map((text) => /^ {2}name: (viaduct-[0-9a-f]{10})$/mu.exec(text)?.[1])
    assert.equal(new Set(names).size, 2)
    for (const text of texts) assert.equal(text.match(/helm\.sh\/resource-policy: keep/gu)?.length, 2)
  })

  const wrong: readonly (readonly [string, RegExp])[] = [
    ['privilged=true', /additional properties 'privilged' not allowed/u],
    ['privileged=yes', /at '\/privileged': got string, want boolean/u],
    ['apiServer.port=70000', /at '\/apiServer\/port': maximum/u],
    ['maxUnavailable=some', /at '\/maxUnavailable'/u],
    ['maxUnavailable=0%', /at '\/maxUnavailable'/u],
    ['maxUnavailable=null', /missing property 'maxUnavailable'/u],
    ['apiServer.host=', /apiServer\.host: set the API server's address/u],
    ['apiServer.host=https://control-plane.example', /at '\/apiServer\/host'/u],
    ['apiServer.host=control-plane.example:6443', /at '\/apiServer\/host'/u],
    ['apiServer.host=[fd00::1]', /at '\/apiServer\/host'/u],
    ['apiServer.port=null', /at '\/apiServer': missing property 'port'/u],
    ['image.repository=null', /at '\/image': missing property 'repository'/u],
    ['image.repository=', /at '\/image\/repository'/u],
    ['image=null', /missing property 'image'/u],
    // The volume had kubeadm's path, and the chart's ConfigMap.
    ['kubeProxyConfigMap=null', /missing property 'kubeProxyConfigMap'/u],
    ['kubeProxyConfigMap=Kube Proxy', /at '\/kubeProxyConfigMap'/u],
    ['kubeProxyConfiguration=null', /missing property 'kubeProxyConfiguration'/u],
    ['kubeProxyConfiguration.mode=ipsv', /at '\/kubeProxyConfiguration\/mode'/u],
    ['kubeProxyConfiguration.kind=Other', /at '\/kubeProxyConfiguration\/kind': 'not' failed/u],
    ['viaductConfiguration.kind=Other', /at '\/viaductConfiguration\/kind': 'not' failed/u],
    ['viaductConfiguration.vipBinding=route', /at '\/viaductConfiguration\/vipBinding'/u],
    ['resources.request.cpu=1', /at '\/resources': additional properties 'request' not allowed/u],
    ['resources.requests.memory=much', /at '\/resources\/requests\/memory'/u],
    [
      'nodeSelector.kubernetes\\.io/os=windows',
      /at '\/nodeSelector\/kubernetes\.io~1os': value must be 'linux'/u,
    ],
  ]
  for (const [value, message] of wrong) {
    it(`refuses ${value}, and names the value`, async () => {
      const { code, stderr } = await template(...atPlaceholder, '--set', value)
      assert.equal(code, 1)
      assert.match(stderr, message)
    })
  }

  const right = [
    'apiServer.host=192.0.2.1',
    'apiServer.host=fd00::1',
    'apiServer.host=::ffff:192.0.2.1',
    'image.repository=registry.example:5000/team/viaduct',
    'image.tag=',
    `image.tag=0.2.0@sha256:${'0123456789abcdef'.repeat(4)}`,
    'kubeProxyConfigMap=kube-proxy',
    'kubeProxyConfiguration.mode=',
    'maxUnavailable=1',
    'maxUnavailable=100%',
    'resources=null',
    'resources.limits.memory=1.5Gi',
    'resources.limits.cpu=2',
    'resources.limits.memory=129e6',
    'resources.limits.cpu=.5',
    'resources.claims[0].name=nic',
    'nodeSelector.kubernetes\\.io/os=linux',
    'resources.requests.cpu=null',
    'nodeSelector.pool=edge',
  ]
  for (const value of right) {
    it(`takes ${value}`, async () => {
      assert.notEqual(await rendered(...atPlaceholder, '--set', value), '')
    })
  }

  it('describes each value, with its type or its choices', () => {
    const schema: unknown = JSON.parse(treeText('deploy/helm/viaduct/values.schema.json'))
    const undescribed: string[] = []
    const visit = (values: object, within: unknown, prefix: string): void => {
      const { properties = {}, additionalProperties } = Object(within)
      for (const name of new Set([...Object.keys(values), ...Object.keys(properties)])) {
        const inner: unknown = Object(properties)[name] ?? additionalProperties
        const { description, type, enum: choices, $ref: reference } = Object(inner)
        const isTyped = type !== undefined || choices !== undefined
        if (reference === undefined && (typeof description !== 'string' || !isTyped))
          undescribed.push(`${prefix}${name}`)
        const value: unknown = Object(values)[name]
        if (typeof value !== 'string') visit(Object(value), inner, `${prefix}${name}.`)
      }
    }
    visit(Object(load(treeText('deploy/helm/viaduct/values.yaml'))), schema, '')
    assert.deepEqual(undescribed, [])
  })
})

/** The objects of an overlay beside the others. */
async function build(example: string): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'viaduct-overlay-'))
  try {
    cpSync(join(treeRoot, 'deploy/kubernetes'), folder, { recursive: true })
    const own = join(folder, 'overlays/yours')
    mkdirSync(own)
    writeFileSync(join(own, 'kustomization.yaml'), example)
    for (const file of ['config.yaml', 'api-server.env']) cpSync(join(folder, 'base', file), join(own, file))
    return await mustRun([kustomize ?? '', 'build', own])
  } finally {
    rmSync(folder, { recursive: true })
  }
}

function imagesOf(text: string): readonly string[] {
  return [...text.matchAll(/^ +(?:- )?image: (\S+)$/gmu)].map(([, image = '']) => image)
}

describe('the overlays of docs/installing.md', () => {
  const examples = [
    ...treeText('docs/installing.md').matchAll(/```yaml\n( *)(apiVersion: kustomize[^]*?)```/gu),
  ]
  const [general = '', kubeadm = ''] = examples.map(([, indent = '', text = '']) =>
    text.replaceAll(new RegExp(`^${indent}`, 'gmu'), ''),
  )

  const resources = ['iptables', 'nftables', 'ipvs', 'userspace', 'split-init', '../base']
  for (const resource of resources) {
    it(`build on ../${resource}`, async () => {
      const text = await build(general.replace('../iptables', `../${resource}`))
      const images = imagesOf(text)
      assert.ok(images.length > 0)
      assert.deepEqual(new Set(images), new Set(['registry.example/viaduct:0.2.0']))
    })
  }

  it('build on ../kubeadm', async () => {
    // Before, the page had only the other example, which fails there: the ConfigMap does not exist.
    assert.deepEqual(imagesOf(await build(kubeadm)), Array(2).fill('registry.example/viaduct:0.2.0'))
  })
})

describe('the kustomize of the tests', () => {
  for (const { folder } of variants) {
    it(`builds ${folder} like the real one`, async () => {
      const path = `deploy/kubernetes/${folder}`
      const built = objectsOf(await mustRun([kustomize, 'build', join(treeRoot, path)]))
      const own = buildKustomization(path)
      const maps = [...own.configMaps].map(([name, data]) => ({
        apiVersion: 'v1',
        kind: 'ConfigMap',
        metadata: { name, namespace: 'kube-system' },
        data,
      }))
      const text = [...own.objects, ...maps].map((object) => JSON.stringify(object)).join('\n---\n')
      assert.deepEqual(objectsOf(text), built)
    })
  }
})
