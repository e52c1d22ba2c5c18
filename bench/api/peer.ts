// A kube-proxy process with the same API server, for comparison. docs/benchmarks.md describes its build.
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { XtFlavour } from '../../src/kernel/index.js'
import type { Namespace } from '../../test/support/namespaces.js'
import type { Program } from '../../test/support/processes.js'
import { processAndToolSeconds } from '../stage/process-cpu.js'

const tools = ['iptables', 'iptables-save', 'iptables-restore']
const nft = '/usr/sbin/nft'
/** Settings of the whole machine that kube-proxy must not change. */
const untouched = [
  '--conntrack-max-per-core=0',
  '--conntrack-min=0',
  '--conntrack-tcp-timeout-established=0',
  '--conntrack-tcp-timeout-close-wait=0',
]

/** The API server of a kube-proxy. */
export interface KubeProxyApi {
  readonly url: string
  /** Path of the authority's certificate. Default: the server does not use TLS. */
  readonly certificate?: string
}

export interface KubeProxyOptions {
  /** Path of the program. */
  readonly binary: string
  readonly mode: 'iptables' | 'nftables'
  /** The tools of iptables that it runs. Default: legacy. */
  readonly flavour?: XtFlavour
  readonly flags?: readonly string[]
}

/** One run of kube-proxy. */
export class KubeProxyRun {
  /** Time just before the start of the process, in nanoseconds of process.hrtime.bigint(). */
  readonly startNs: bigint
  readonly #program: Program
  readonly #folder: string

  constructor(
    place: Namespace,
    api: KubeProxyApi,
    { binary, mode, flavour = 'legacy', flags = [] }: KubeProxyOptions,
  ) {
    this.#folder = mkdtempSync(join(tmpdir(), 'kube-proxy-'))
    for (const tool of [...tools, ...tools.map((name) => name.replace('ip', 'ip6'))])
      symlinkSync(`/usr/sbin/xtables-${flavour}-multi`, join(this.#folder, tool))
    symlinkSync(nft, join(this.#folder, 'nft'))
    const kubeconfig = join(this.#folder, 'kubeconfig')
    writeFileSync(kubeconfig, JSON.stringify(kubeconfigOf(api)))
    const own = [`--kubeconfig=${kubeconfig}`, `--proxy-mode=${mode}`, '--hostname-override=node-a']
    this.startNs = process.hrtime.bigint()
    // Its log is on standard error.
    const script = 'exec "$@" 2>&1'
    const command = ['env', `PATH=${this.#folder}`, binary, ...own, ...untouched, ...flags]
    this.#program = place.start('sh', '-c', script, 'sh', ...command)
  }

  /** Resolves when it has written the rules of these families for the first time. NB: its log names that with `-v=2`. */
  async inForce(families: readonly ('IPv4' | 'IPv6')[]): Promise<void> {
    for (const family of families)
      await this.#program.line(
        (line) => line.includes('"SyncProxyRules complete"') && line.includes(`ipFamily="${family}"`),
      )
  }

  /** CPU seconds of the process and of the ended tools that it ran. */
  cpuSeconds(): number {
    return processAndToolSeconds(this.#program.pid)
  }

  async stop(): Promise<void> {
    await this.#program.kill()
    rmSync(this.#folder, { recursive: true })
  }
}

function kubeconfigOf({ url, certificate }: KubeProxyApi): unknown {
  return {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'bench', cluster: { server: url, 'certificate-authority': certificate } }],
    users: [{ name: 'bench', user: { token: 'bench' } }],
    contexts: [{ name: 'bench', context: { cluster: 'bench', user: 'bench' } }],
    'current-context': 'bench',
  }
}
