// The commands of docs/installing.md for a cluster of kubeadm, in their order: which program each node runs after each, and back.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { load } from 'js-yaml'
import { parseArguments } from '../../../src/cli/index.js'
import { kubeadmConfig } from '../../support/kubeadm.js'
import { buildKustomization, mergePatch } from '../../support/kustomization.js'
import { treeText } from '../../support/tree.js'

interface Container {
  readonly name: string
  readonly image: string
  readonly command?: readonly string[]
  readonly args?: readonly string[]
}

interface Expression {
  readonly key: string
  readonly operator: string
  readonly values: readonly string[]
}

interface PodSpec {
  readonly nodeSelector: Readonly<Record<string, string>>
  readonly affinity?: {
    readonly nodeAffinity: {
      readonly requiredDuringSchedulingIgnoredDuringExecution: {
        readonly nodeSelectorTerms: readonly { readonly matchExpressions: readonly Expression[] }[]
      }
    }
  }
  readonly containers: readonly Container[]
}

interface DaemonSet {
  readonly metadata: { readonly name: string }
  readonly spec: { readonly template: { readonly spec: PodSpec } }
}

const former: DaemonSet = JSON.parse(JSON.stringify(load(treeText('test/support/kubeadm/daemonset.yaml'))))

/** The DaemonSets and nodes of a cluster, which the commands of kubectl change. A command that it does not know fails. */
class Cluster {
  daemonSets: readonly DaemonSet[] = [former]
  readonly nodes = new Map<string, Record<string, string>>(
    ['a', 'b'].map((name) => [name, { 'kubernetes.io/os': 'linux', 'kubernetes.io/arch': 'amd64' }]),
  )

  run(command: string): void {
    for (const [form, apply] of this.#forms) {
      const groups = form.exec(command)?.groups
      if (groups !== undefined) return apply(groups)
    }
    assert.fail(`no command of this test: ${command}`)
  }

  /** The images that the scheduler starts on the node. */
  imagesOn(node: string): readonly string[] {
    const running = this.daemonSets.filter((set) => fits(set.spec.template.spec, this.nodes.get(node) ?? {}))
    return running.map((set) => set.spec.template.spec.containers[0]?.image ?? '')
  }

  readonly #forms: readonly (readonly [RegExp, (groups: Readonly<Record<string, string>>) => void])[] = [
    [
      /^kubectl -n kube-system set image daemonset\/(?<set>\S+) (?<container>\S+)=(?<image>\S+)$/u,
      ({ set = '', container = '', image = '' }) => {
        const containers = this.#find(set).spec.template.spec.containers
        assert.ok(containers.some(({ name }) => name === container))
        this.#patch(set, { spec: { template: { spec: { containers: [{ name: container, image }] } } } })
      },
    ],
    [
      /^kubectl -n kube-system patch daemonset (?<set>\S+) --patch-file (?<file>\S+)$/u,
      ({ set = '', file = '' }) => this.#patch(set, load(treeText(file))),
    ],
    [
      /^kubectl apply -k (?<folder>\S+)$/u,
      ({ folder = '' }) => {
        const made = buildKustomization(folder).objects.filter(({ kind }) => kind === 'DaemonSet')
        const added: readonly DaemonSet[] = JSON.parse(JSON.stringify(made))
        this.daemonSets = [...this.daemonSets, ...added]
      },
    ],
    [
      /^kubectl label (?:--overwrite )?nodes? (?<node>NODE|--all) service-proxy(?<change>=\S+|-)$/u,
      ({ node, change = '' }) => {
        for (const [name, labels] of this.nodes)
          if (node === '--all' || name === 'a') {
            if (change === '-') delete labels['service-proxy']
            else labels['service-proxy'] = change.slice(1)
          }
      },
    ],
  ]

  #find(name: string): DaemonSet {
    const found = this.daemonSets.find(({ metadata }) => metadata.name === name)
    assert.ok(found, `there is no DaemonSet ${name}`)
    return found
  }

  #patch(name: string, change: unknown): void {
    const patched = mergePatch(this.#find(name), change)
    this.daemonSets = this.daemonSets.map((set) => (set.metadata.name === name ? patched : set))
  }
}

/** Whether the scheduler may place a pod on a node with these labels. A node without the label satisfies NotIn. */
function fits({ nodeSelector, affinity }: PodSpec, labels: Readonly<Record<string, string>>): boolean {
  const terms = affinity?.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms
  const expressions = terms?.flatMap(({ matchExpressions }) => matchExpressions) ?? []
  assert.ok((terms?.length ?? 1) === 1 && expressions.every(({ operator }) => operator === 'NotIn'))
  return (
    Object.entries(nodeSelector).every(([key, value]) => labels[key] === value) &&
    expressions.every(({ key, values }) => !values.includes(labels[key] ?? ''))
  )
}

/** Fails unless the agent accepts the arguments of the DaemonSet's container with kubeadm's configuration. */
function assertAccepted({ spec }: DaemonSet): void {
  const [{ command = [], args = [] } = { command: [] }] = spec.template.spec.containers
  const words = [...command.slice(1), ...args].map((word) => word.replace('$(NODE_NAME)', 'a'))
  const invocation = parseArguments(words, (path) => {
    assert.equal(path, '/var/lib/kube-proxy/config.conf')
    return Buffer.from(kubeadmConfig)
  })
  assert.ok('config' in invocation, 'text' in invocation ? invocation.text : '')
}

const text = treeText('docs/installing.md')
const section = text.slice(text.indexOf('\n## kubeadm\n'), text.indexOf('\n## From kube-proxy'))
const commands = [...section.matchAll(/```sh\n(?<block>[^`]*)```/gu)].flatMap(({ groups }) =>
  (groups?.['block'] ?? '')
    .trimEnd()
    .split('\n')
    .map((line) => line.replace(/\s+#.*/u, '')),
)

describe("the commands for kubeadm's cluster", () => {
  const kubeProxy = 'registry.k8s.io/kube-proxy:v1.36.0'
  const own = 'registry.example/viaduct:0.2.0'
  const built = 'viaduct:0.2.0'
  /** Images on the node NODE and on another one after each command. */
  const ways = [
    { way: "in kubeadm's own DaemonSet", from: 0, images: [[own, own]] },
    {
      way: 'node by node, and back for one node',
      from: 1,
      images: [
        [kubeProxy, kubeProxy],
        [kubeProxy, kubeProxy],
        [built, kubeProxy],
        [kubeProxy, kubeProxy],
      ],
    },
  ]
  it('are those that this test runs', () => assert.equal(commands.length, 6))

  for (const { way, from, images } of ways)
    it(`${way}: each node runs one program after each command`, () => {
      const cluster = new Cluster()
      for (const [at, expected] of images.entries()) {
        cluster.run(commands[from + at] ?? '')
        const found = [cluster.imagesOn('a'), cluster.imagesOn('b')]
        assert.deepEqual(
          found,
          expected.map((image) => [image]),
          commands[from + at] ?? '',
        )
      }
      for (const set of cluster.daemonSets) assertAccepted(set)
    })

  it('in the DaemonSet of kubeadm: the former image is the way back', () => {
    const cluster = new Cluster()
    const [change = ''] = commands
    cluster.run(change)
    cluster.run(change.replace(own, kubeProxy))
    assert.deepEqual(cluster.daemonSets, [former])
  })

  it('the last command gives all nodes back to kube-proxy', () => {
    const cluster = new Cluster()
    for (const command of commands.slice(1, 3)) cluster.run(command)
    cluster.run('kubectl label --overwrite node --all service-proxy=viaduct')
    assert.deepEqual([cluster.imagesOn('a'), cluster.imagesOn('b')], [[built], [built]])
    cluster.run(commands.at(-1) ?? '')
    assert.deepEqual([cluster.imagesOn('a'), cluster.imagesOn('b')], [[kubeProxy], [kubeProxy]])
  })
})
