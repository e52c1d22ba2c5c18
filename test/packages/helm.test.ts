// deploy/helm makes the same objects as deploy/kubernetes. Both are rendered by the real programs, which the suite builds
// (scripts/packages/tools.mjs).
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { loadAll } from 'js-yaml'
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
  { folder: 'overlays/iptables', values: [...valuesOf('iptables'), ...atPlaceholder] },
  { folder: 'overlays/kubeadm', values: valuesOf('kubeadm') },
]

describe('the chart', () => {
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
    ['apiServer.host=', /apiServer\.host: set the API server's address/u],
  ]
  for (const [value, message] of wrong) {
    it(`refuses ${value}, and names the value`, async () => {
      const { code, stderr } = await template('--set', value)
      assert.equal(code, 1)
      assert.match(stderr, message)
    })
  }

  it('describes each value', () => {
    const undescribed: string[] = []
    const visit = (properties: object, prefix: string): void => {
      for (const [name, schema] of Object.entries(properties)) {
        const { description, properties: inner = {} } = Object(schema)
        if (typeof description !== 'string') undescribed.push(`${prefix}${name}`)
        visit(inner, `${prefix}${name}.`)
      }
    }
    visit(Object(JSON.parse(treeText('deploy/helm/viaduct/values.schema.json'))).properties, '')
    assert.deepEqual(undescribed, [])
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
