// Network namespaces for tests. A process that dies with this one holds each namespace. So no name under /run/netns and no interface
// remains, even after a crash. The machine's own namespace is never changed.
import { mustRun, Program, runToEnd, type Finished } from './processes.js'

/** One network namespace, with `lo` up. */
export class Namespace {
  readonly name: string
  readonly #holder: Program
  readonly #programs: Program[] = []
  #isClosed = false

  private constructor(name: string, holder: Program) {
    this.name = name
    this.#holder = holder
  }

  static async create(name: string): Promise<Namespace> {
    // cat also ends when this process closes its standard input.
    const script = 'ip link set lo up && echo ready && exec cat'
    const holder = new Program(['unshare', '--net', 'sh', '-c', script])
    await holder.line((line) => line === 'ready')
    return new Namespace(name, holder)
  }

  get pid(): number {
    return this.#holder.pid
  }

  /** Runs a command in the namespace to its end. Any exit code is a result. */
  run(...command: readonly string[]): Promise<Finished> {
    return runToEnd(this.#entered(command))
  }

  /** Runs a command in the namespace that must succeed. Returns its output. */
  must(...command: readonly string[]): Promise<string> {
    return mustRun(this.#entered(command))
  }

  /** Runs commands of ip in the namespace, in one process: `address add 192.0.2.1/24 dev eth0`. Throws at the first failure. */
  async ip(...lines: readonly string[]): Promise<void> {
    await this.must('sh', '-c', 'printf "%s\\n" "$@" | ip -batch -', 'sh', ...lines)
  }

  /** Starts a program in the namespace. It ends with the namespace at the latest. */
  start(...command: readonly string[]): Program {
    const program = new Program(this.#entered(command))
    this.#programs.push(program)
    return program
  }

  /**
   * Ends all programs of the namespace, then the namespace. Idempotent. From then on no program starts in it: a test that timed out runs
   * on beside the `after` of its suite.
   */
  async close(): Promise<void> {
    this.#isClosed = true
    await Promise.all(this.#programs.map((program) => program.kill()))
    await this.#holder.kill()
  }

  #entered(command: readonly string[]): readonly string[] {
    if (this.#isClosed) throw new Error(`the namespace ${this.name} is closed: ${command.join(' ')}`)
    return ['nsenter', `--net=/proc/${this.pid}/ns/net`, ...command]
  }
}

export interface LinkEnd {
  readonly namespace: Namespace
  readonly interfaceName: string
  /** With prefix length: 10.0.0.1/24, fd00::1/64. */
  readonly addresses: readonly string[]
}

/** Joins two namespaces by a veth pair, up and with addresses at both ends. */
export async function connect(left: LinkEnd, right: LinkEnd): Promise<void> {
  const peer = `peer name ${right.interfaceName} netns ${right.namespace.pid}`
  await left.namespace.ip(`link add ${left.interfaceName} type veth ${peer}`)
  for (const { namespace, interfaceName, addresses } of [left, right]) {
    const lines = addresses.map((address) => addressLine(address, interfaceName))
    await namespace.ip(...lines, `link set ${interfaceName} up`)
  }
}

/** A command of ip that adds an address. IPv6 addresses skip duplicate detection, so that they are usable at once. */
function addressLine(address: string, interfaceName: string): string {
  return `address add ${address} dev ${interfaceName}${address.includes(':') ? ' nodad' : ''}`
}

/** Writes settings under /proc/sys of this namespace: `net.ipv4.ip_forward=1`. */
export async function setSysctls(namespace: Namespace, ...settings: readonly string[]): Promise<void> {
  const script = 'for setting; do echo "${setting#*=}" > "/proc/sys/${setting%%=*}"; done'
  const paths = settings.map((setting) => setting.replace(/^[^=]*/, (name) => name.replaceAll('.', '/')))
  await namespace.must('sh', '-e', '-c', script, 'sh', ...paths)
}
