// Network namespaces for tests. A namespace is held by a process that dies with this one, so nothing is ever left behind:
// no names under /run/netns, no interfaces, whatever ends the test. The machine's own namespace is never touched.
import { mustRun, Program, runToEnd, type Finished } from './processes.js'

/** One network namespace, with `lo` up. */
export class Namespace {
  readonly name: string
  readonly #holder: Program
  readonly #programs: Program[] = []

  private constructor(name: string, holder: Program) {
    this.name = name
    this.#holder = holder
  }

  static async create(name: string): Promise<Namespace> {
    // cat ends when our end of its standard input closes, which is a second reason for it not to outlive us.
    const script = 'ip link set lo up && echo ready && exec cat'
    const holder = new Program(['unshare', '--net', 'sh', '-c', script])
    await holder.line((line) => line === 'ready')
    return new Namespace(name, holder)
  }

  get pid(): number {
    return this.#holder.pid
  }

  /** Runs a command in here to its end; any exit code is a result. */
  run(...command: readonly string[]): Promise<Finished> {
    return runToEnd(this.#entered(command))
  }

  /** Runs a command in here that must succeed, and returns what it printed. */
  must(...command: readonly string[]): Promise<string> {
    return mustRun(this.#entered(command))
  }

  /** Starts a program in here that ends with the namespace at the latest. */
  start(...command: readonly string[]): Program {
    const program = new Program(this.#entered(command))
    this.#programs.push(program)
    return program
  }

  /** Ends everything that was started in here, then the namespace. Idempotent. */
  async close(): Promise<void> {
    await Promise.all(this.#programs.map((program) => program.kill()))
    await this.#holder.kill()
  }

  #entered(command: readonly string[]): readonly string[] {
    return ['nsenter', `--net=/proc/${this.pid}/ns/net`, ...command]
  }
}

export interface LinkEnd {
  readonly namespace: Namespace
  readonly interfaceName: string
  /** With prefix length: 10.0.0.1/24, fd00::1/64. */
  readonly addresses: readonly string[]
}

/** Joins two namespaces by a veth pair, up and with addresses at both ends (IPv6 without duplicate detection). */
export async function connect(left: LinkEnd, right: LinkEnd): Promise<void> {
  const peer = ['peer', 'name', right.interfaceName, 'netns', String(right.namespace.pid)]
  await left.namespace.must('ip', 'link', 'add', left.interfaceName, 'type', 'veth', ...peer)
  for (const end of [left, right]) {
    for (const address of end.addresses) await addAddress(end.namespace, end.interfaceName, address)
    await end.namespace.must('ip', 'link', 'set', end.interfaceName, 'up')
  }
}

/** Adds an address that is usable at once. */
export async function addAddress(
  namespace: Namespace,
  interfaceName: string,
  address: string,
): Promise<void> {
  const flags = address.includes(':') ? ['nodad'] : []
  await namespace.must('ip', 'address', 'add', address, 'dev', interfaceName, ...flags)
}

/** Writes settings under /proc/sys as this namespace sees it: `net.ipv4.ip_forward=1`. */
export async function setSysctls(namespace: Namespace, ...settings: readonly string[]): Promise<void> {
  for (const setting of settings) {
    const [name, value] = setting.split('=')
    if (name === undefined || value === undefined) throw new Error(`not a setting: ${setting}`)
    const path = `/proc/sys/${name.replaceAll('.', '/')}`
    await namespace.must('sh', '-c', 'echo "$0" > "$1"', value, path)
  }
}
