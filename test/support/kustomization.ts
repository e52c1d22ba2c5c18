// The part of kustomize that deploy/kubernetes uses: resources, components, patches (strategic merge, JSON), images and generated
// ConfigMaps. Names get no hash. A reference to a missing file or object throws. test/packages/helm.test.ts compares it with kustomize.
import { readFileSync } from 'node:fs'
import { join, normalize } from 'node:path'
import { load, loadAll } from 'js-yaml'
import { treeRoot } from './tree.js'

export interface KubernetesObject {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: { readonly name: string; readonly namespace?: string }
}

interface Generator {
  readonly name: string
  readonly behavior?: 'replace'
  readonly files?: readonly string[]
  readonly envs?: readonly string[]
}

interface Image {
  readonly name: string
  readonly newName: string
  readonly newTag: string
}

/** The object that a JSON patch changes. */
interface Target {
  readonly kind: string
  readonly name: string
}

/** One operation of a JSON patch (RFC 6902). */
interface Operation {
  readonly op: 'add' | 'replace' | 'remove'
  readonly path: string
  readonly value?: unknown
}

/** The fields of a kustomization. */
interface Kustomization extends KubernetesObject {
  readonly namespace?: string
  readonly resources?: readonly string[]
  readonly components?: readonly string[]
  readonly patches?: readonly { readonly path: string; readonly target?: Target }[]
  readonly images?: readonly Image[]
  readonly configMapGenerator?: readonly Generator[]
}

export interface Build {
  readonly objects: readonly KubernetesObject[]
  /** Generated ConfigMaps: name to key to value. */
  readonly configMaps: ReadonlyMap<string, Readonly<Record<string, string>>>
  /** Paths of all read files, from the tree's root. */
  readonly files: readonly string[]
}

const nothing: Build = { objects: [], configMaps: new Map(), files: [] }

/** The objects that `kubectl apply -k` of the folder would apply. */
export function buildKustomization(folder: string): Build {
  return addFolder(nothing, folder)
}

function addFolder(former: Build, folder: string): Build {
  const path = join(folder, 'kustomization.yaml')
  const [kustomization] = readObjects(path)
  if (kustomization === undefined) throw new Error(`${path} is empty`)
  let build: Build = { ...former, files: [...former.files, path] }
  for (const name of [...(kustomization.resources ?? []), ...(kustomization.components ?? [])])
    build = addResource(build, normalize(join(folder, name)))
  for (const { path: name, target } of kustomization.patches ?? [])
    build =
      target === undefined ? patch(build, join(folder, name)) : patchTarget(build, join(folder, name), target)
  for (const generator of kustomization.configMapGenerator ?? []) build = generate(build, folder, generator)
  build = { ...build, objects: withImages(build.objects, kustomization.images ?? []) }
  const { namespace } = kustomization
  if (namespace === undefined) return build
  const objects = build.objects.map((object) => ({
    ...object,
    metadata: { ...object.metadata, ...(isOfCluster(object) ? {} : { namespace }) },
  }))
  return { ...build, objects }
}

function isOfCluster({ kind }: KubernetesObject): boolean {
  return kind.startsWith('Cluster')
}

function addResource(build: Build, path: string): Build {
  if (!path.endsWith('.yaml')) return addFolder(build, path)
  const objects = [...build.objects, ...readObjects(path)]
  return { ...build, objects, files: [...build.files, path] }
}

/** Applies a strategic merge patch, or removes a generated ConfigMap that the patch deletes. */
function patch(build: Build, path: string): Build {
  const [change] = readObjects(path)
  if (change !== undefined && '$patch' in change) {
    const { kind, metadata } = change
    if (kind !== 'ConfigMap' || !build.configMaps.has(metadata.name))
      throw new Error(`${path} deletes nothing that is there`)
    const configMaps = new Map([...build.configMaps].filter(([name]) => name !== metadata.name))
    return { ...build, configMaps, files: [...build.files, path] }
  }
  const isMeant = ({ kind, metadata }: KubernetesObject): boolean =>
    kind === change?.kind && metadata.name === change.metadata.name
  if (!build.objects.some(isMeant)) throw new Error(`${path} changes nothing that is there`)
  const objects = build.objects.map((object) => (isMeant(object) ? mergePatch(object, change) : object))
  return { ...build, objects, files: [...build.files, path] }
}

function patchTarget(build: Build, path: string, { kind, name }: Target): Build {
  const operations: readonly Operation[] = JSON.parse(JSON.stringify(load(readText(path))))
  const isMeant = (object: KubernetesObject): boolean => object.kind === kind && object.metadata.name === name
  if (!build.objects.some(isMeant)) throw new Error(`${path} changes nothing that is there`)
  const objects = build.objects.map((object) => {
    if (!isMeant(object)) return object
    const changed: KubernetesObject = JSON.parse(JSON.stringify(object))
    for (const operation of operations) operate(changed, path, operation)
    return changed
  })
  return { ...build, objects, files: [...build.files, path] }
}

/** Applies one operation. Only `add` may name an absent field. No operation inserts into a list. */
function operate(object: object, file: string, { op, path, value }: Operation): void {
  const keys = path.split('/').slice(1)
  const last = keys.pop() ?? ''
  const parent: unknown = keys.reduce<unknown>((inner, key) => Object(inner)[key], object)
  if (!isContainer(parent) || (op !== 'add' && !(last in parent)))
    throw new Error(`${file}: there is no ${path}`)
  if (op === 'remove') delete parent[last]
  else parent[last] = value
}

function isContainer(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}

function generate(build: Build, folder: string, { name, behavior, files = [], envs = [] }: Generator): Build {
  if ((behavior === 'replace') !== build.configMaps.has(name))
    throw new Error(`${folder}: ConfigMap ${name}: ${behavior}`)
  const lines = envs.flatMap((file) => readText(join(folder, file)).split('\n'))
  const variables = lines.filter((line) => /^[^#]/.test(line)).map((line) => line.split(/=(.*)/s).slice(0, 2))
  const data = {
    ...Object.fromEntries(files.map((file) => [file, readText(join(folder, file))])),
    ...Object.fromEntries(variables),
  }
  return {
    ...build,
    configMaps: new Map([...build.configMaps, [name, data]]),
    files: [...build.files, ...[...files, ...envs].map((file) => join(folder, file))],
  }
}

/** The objects with replaced images of their containers. */
function withImages(objects: Build['objects'], images: readonly Image[]): Build['objects'] {
  const renamed: Build['objects'] = JSON.parse(JSON.stringify(objects), (key, value: unknown) => {
    if (key !== 'image' || typeof value !== 'string') return value
    const image = images.find(({ name }) => name === value.replace(/:[^/]*$/, ''))
    return image === undefined ? value : `${image.newName}:${image.newTag}`
  })
  return renamed
}

/** A strategic merge patch: lists of named objects are merged by name, other lists are replaced. */
export function mergePatch<T>(former: T, change: unknown): T {
  const result: T = JSON.parse(JSON.stringify(mergedValue(former, change)))
  return result
}

function mergedValue(former: unknown, change: unknown): unknown {
  if (isNamedList(former) && isNamedList(change)) {
    const kept = former.map((item) => mergedValue(item, change.find(({ name }) => name === item.name) ?? {}))
    return [...kept, ...change.filter(({ name }) => former.every((item) => item.name !== name))]
  }
  if (!isObject(former) || !isObject(change)) return change
  const keys = [...new Set([...Object.keys(former), ...Object.keys(change)])]
  return Object.fromEntries(
    keys.map((key) => [key, key in change ? mergedValue(former[key], change[key]) : former[key]]),
  )
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function isNamedList(value: unknown): value is readonly { readonly name: string }[] {
  return Array.isArray(value) && value.every((item) => isObject(item) && 'name' in item)
}

function readObjects(path: string): readonly Kustomization[] {
  const objects: readonly Kustomization[] = JSON.parse(JSON.stringify(loadAll(readText(path))))
  return objects
}

function readText(path: string): string {
  return readFileSync(join(treeRoot, path), 'utf8')
}
