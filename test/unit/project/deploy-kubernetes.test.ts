// Checks deploy/kubernetes against the agent and for consistency, without a cluster and without kustomize.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { parseArguments } from '../../../src/cli/index.js'
import type { Config } from '../../../src/config/index.js'
import { buildKustomization, type Build, type KubernetesObject } from '../../support/kustomization.js'
import { treeFiles, treeText } from '../../support/tree.js'

interface Probe {
  readonly httpGet: { readonly path: string; readonly port: number }
}

interface Container {
  readonly name: string
  readonly image: string
  readonly args: readonly string[]
  readonly env: readonly { readonly name: string }[]
  readonly envFrom?: readonly { readonly configMapRef: { readonly name: string } }[]
  readonly securityContext: Readonly<Record<string, unknown>>
  readonly startupProbe?: Probe
  readonly livenessProbe?: Probe
  readonly readinessProbe?: Probe
  readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[]
}

interface Volume {
  readonly name: string
  readonly configMap?: { readonly name: string }
}

interface DaemonSet extends KubernetesObject {
  readonly spec: {
    readonly selector: { readonly matchLabels: object }
    readonly template: {
      readonly metadata: { readonly labels: object }
      readonly spec: {
        readonly serviceAccountName: string
        readonly hostNetwork: boolean
        readonly initContainers?: readonly Container[]
        readonly containers: readonly Container[]
        readonly volumes: readonly Volume[]
      }
    }
  }
}

interface Binding extends KubernetesObject {
  readonly roleRef: { readonly name: string }
  readonly subjects: readonly { readonly kind: string; readonly name: string; readonly namespace: string }[]
}

interface Kinds {
  readonly DaemonSet: DaemonSet
  readonly ClusterRoleBinding: Binding
  readonly ServiceAccount: KubernetesObject
}

const folder = 'deploy/kubernetes'
const { version }: { readonly version: string } = JSON.parse(treeText('package.json'))

function theOnly<K extends keyof Kinds>({ objects }: Build, kind: K): Kinds[K] {
  const found = objects.filter((object) => object.kind === kind)
  assert.equal(found.length, 1, kind)
  const [object]: readonly Kinds[K][] = JSON.parse(JSON.stringify(found))
  assert.ok(object !== undefined)
  return object
}

/** The agent's configuration from a container's arguments and its mounted ConfigMaps. */
function configOf({ args, env, volumeMounts }: Container, build: Build): Config {
  const { volumes } = theOnly(build, 'DaemonSet').spec.template.spec
  const readFile = (path: string): Uint8Array => {
    const mount = volumeMounts.find(({ mountPath }) => path.startsWith(`${mountPath}/`))
    const volume = volumes.find(({ name }) => name === mount?.name)
    const text = build.configMaps.get(volume?.configMap?.name ?? '')?.[path.slice(path.lastIndexOf('/') + 1)]
    assert.ok(text !== undefined, path)
    return Buffer.from(text)
  }
  const known = new Map(env.map(({ name }) => [name, 'node-a']))
  const written = args.map((word) =>
    word.replaceAll(/\$\((\w+)\)/g, (all, name: string) => known.get(name) ?? all),
  )
  const invocation = parseArguments(written, readFile)
  assert.ok('config' in invocation, 'text' in invocation ? invocation.text : '')
  return invocation.config
}

const variants = [
  { name: 'base', mode: 'iptables', modeFallback: true, privileged: true },
  { name: 'overlays/split-init', mode: 'iptables', modeFallback: true, privileged: false },
  { name: 'overlays/ipvs', mode: 'ipvs', modeFallback: false, privileged: false },
  { name: 'overlays/nftables', mode: 'nftables', modeFallback: false, privileged: false },
  { name: 'overlays/iptables', mode: 'iptables', modeFallback: false, privileged: false },
  { name: 'overlays/userspace', mode: 'userspace', modeFallback: false, privileged: false },
] as const

describe('deploy/kubernetes', () => {
  it('has no unused file', () => {
    const builds = [...variants.map(({ name }) => name), 'overlays/kubeadm'].map((name) =>
      buildKustomization(`${folder}/${name}`),
    )
    // A patch for an object of kubeadm, in test/unit/project/deploy-kubeadm.test.ts.
    const used = new Set([
      ...builds.flatMap(({ files }) => files),
      `${folder}/overlays/kubeadm/kube-proxy.yaml`,
    ])
    const files = treeFiles(/^deploy\/kubernetes\/.*\.(?:yaml|env)$/)
    assert.deepEqual(
      files.filter((path) => !used.has(path)),
      [],
    )
  })

  for (const { name, mode, modeFallback, privileged } of variants) {
    describe(name, () => {
      const build = buildKustomization(`${folder}/${name}`)
      const daemonSet = theOnly(build, 'DaemonSet')
      const pod = daemonSet.spec.template.spec
      const { initContainers = [], containers, volumes } = pod
      const [agent] = containers
      assert.ok(agent !== undefined)

      it('binds the service account of its pods to the role of kube-proxy', () => {
        const account = theOnly(build, 'ServiceAccount')
        const { roleRef, subjects } = theOnly(build, 'ClusterRoleBinding')
        assert.equal(roleRef.name, 'system:node-proxier')
        assert.deepEqual(subjects, [{ kind: 'ServiceAccount', ...account.metadata }])
        assert.equal(pod.serviceAccountName, account.metadata.name)
        assert.equal(daemonSet.metadata.namespace, account.metadata.namespace)
      })

      it('refers only to existing objects', () => {
        assert.deepEqual(daemonSet.spec.selector.matchLabels, daemonSet.spec.template.metadata.labels)
        const named = volumes.flatMap(({ configMap }) => (configMap === undefined ? [] : [configMap.name]))
        for (const { volumeMounts, envFrom = [], image } of [...initContainers, ...containers]) {
          for (const mount of volumeMounts) assert.ok(volumes.some((volume) => volume.name === mount.name))
          named.push(...envFrom.map(({ configMapRef }) => configMapRef.name))
          assert.equal(image, `viaduct:${version}`)
        }
        assert.deepEqual([...new Set(named)].toSorted(), [...build.configMaps.keys()].toSorted())
      })

      it('has a configuration that the agent accepts', () => {
        const config = configOf(agent, build)
        assert.deepEqual([config.mode, config.modeFallback], [mode, modeFallback])
        assert.equal(config.hostnameOverride, 'node-a')
        assert.deepEqual(config.discardedFlags, [])
        assert.equal(config.initOnly, false)
        for (const init of initContainers)
          assert.deepEqual(configOf(init, build), { ...config, initOnly: true })
      })

      // Issue 35, A2: at the node's address, the Service of a tenant answered them.
      it('has probes on the health port of the loopback address', () => {
        const port = configOf(agent, build).servers.healthzBindAddress?.port
        const host = '127.0.0.1'
        assert.deepEqual(
          [agent.startupProbe, agent.livenessProbe, agent.readinessProbe].map((probe) => probe?.httpGet),
          ['/livez', '/livez', '/healthz'].map((path) => ({ host, path, port })),
        )
      })

      it(
        privileged
          ? 'is privileged'
          : 'has the capabilities of its mode alone, once a privileged container has ended',
        () => {
          assert.ok(pod.hostNetwork)
          const rights = { privileged: true, readOnlyRootFilesystem: true }
          for (const { securityContext } of initContainers) assert.deepEqual(securityContext, rights)
          assert.equal(initContainers.length, privileged ? 0 : 1)
          const fewer = {
            privileged: false,
            readOnlyRootFilesystem: true,
            allowPrivilegeEscalation: false,
            runAsUser: 0,
            capabilities: {
              drop: ['ALL'],
              add: mode === 'userspace' ? ['NET_ADMIN', 'NET_BIND_SERVICE'] : ['NET_ADMIN'],
            },
            seccompProfile: { type: 'RuntimeDefault' },
          }
          assert.deepEqual(agent.securityContext, privileged ? rights : fewer)
        },
      )
    })
  }
})
