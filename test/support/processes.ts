// Child processes of a test. None outlives the test's process, even after a crash.
import { spawn, type ChildProcessWithoutNullStreams } from 'node:child_process'
import { createInterface } from 'node:readline'

export interface Finished {
  /** Exit code; undefined: a signal ended the program. */
  readonly code: number | undefined
  readonly stdout: string
  readonly stderr: string
}

/** A running program and its output. */
export class Program {
  readonly #child: ChildProcessWithoutNullStreams
  readonly #lines: string[] = []
  readonly #watchers = new Set<() => void>()
  #stderr = ''
  readonly ended: Promise<Finished>

  /** The kernel kills the program when this process dies (PR_SET_PDEATHSIG survives the exec). */
  constructor(command: readonly string[]) {
    this.#child = spawn('setpriv', ['--pdeathsig', 'KILL', ...command])
    createInterface(this.#child.stdout).on('line', (line) => {
      this.#lines.push(line)
      this.#wake()
    })
    this.#child.stderr.setEncoding('utf8').on('data', (text: string) => (this.#stderr += text))
    // `ended` reports a program that has ended. An error of its pipe is ignored.
    this.#child.stdin.on('error', () => this.#wake())
    this.ended = new Promise((resolve, reject) => {
      this.#child.on('error', reject)
      this.#child.on('close', (code) => {
        resolve({ code: code ?? undefined, stdout: this.#lines.join('\n'), stderr: this.#stderr })
        this.#wake()
      })
    })
  }

  /** The program's process id. setpriv and nsenter replace themselves with the program, so it is the child's. */
  get pid(): number {
    const { pid } = this.#child
    if (pid === undefined) throw new Error('the program did not start')
    return pid
  }

  get lines(): readonly string[] {
    return this.#lines
  }

  /** The first matching line at or after index `from`. Throws with the program's output if it ends without one. */
  async line(fits: (line: string) => boolean, from = 0): Promise<string> {
    for (let index = from; ; index++) {
      while (index >= this.#lines.length) await this.#change()
      const line = this.#lines[index]
      if (line !== undefined && fits(line)) return line
    }
  }

  write(text: string): void {
    this.#child.stdin.write(text)
  }

  /** Closes the program's standard input. */
  end(): void {
    this.#child.stdin.end()
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal)
  }

  /** Kills the program and waits for its end. Idempotent. */
  async kill(): Promise<void> {
    this.#child.kill('SIGKILL')
    await this.ended
  }

  async #change(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) {
      const { code, stdout, stderr } = await this.ended
      throw new Error(`the program ended with ${code ?? 'a signal'}:\n${stdout}\n${stderr}`)
    }
    await new Promise<void>((resolve) => {
      const wake = (): void => {
        this.#watchers.delete(wake)
        resolve()
      }
      this.#watchers.add(wake)
    })
  }

  #wake(): void {
    for (const wake of this.#watchers) wake()
  }
}

/** Runs a command to its end. Any exit code is a result. */
export async function runToEnd(command: readonly string[]): Promise<Finished> {
  return new Program(command).ended
}

/** Runs a command that must succeed. Returns its output. */
export async function mustRun(command: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await runToEnd(command)
  if (code === 0) return stdout
  throw new Error(`${command.join(' ')} ended with ${code ?? 'a signal'}: ${stderr}`)
}
