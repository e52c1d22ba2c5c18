// Child processes of a test: none outlives the test's own process, however that ends.
import { spawn, type ChildProcessWithoutNullStreams } from 'node:child_process'
import { createInterface } from 'node:readline'

export interface Finished {
  /** Exit code; undefined when a signal ended it. */
  readonly code: number | undefined
  readonly stdout: string
  readonly stderr: string
}

/** A program under way, with its outputs kept. */
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
    // A program that is gone answers no request: that shows in `ended`, not as an error of its pipe.
    this.#child.stdin.on('error', () => this.#wake())
    this.ended = new Promise((resolve, reject) => {
      this.#child.on('error', reject)
      this.#child.on('close', (code) => {
        resolve({ code: code ?? undefined, stdout: this.#lines.join('\n'), stderr: this.#stderr })
        this.#wake()
      })
    })
  }

  /** The process id of the program itself: setpriv and nsenter replace themselves by the program. */
  get pid(): number {
    const { pid } = this.#child
    if (pid === undefined) throw new Error('the program did not start')
    return pid
  }

  get lines(): readonly string[] {
    return this.#lines
  }

  /** The first line at or after `from` that fits; throws with the program's outputs when it ended without one. */
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

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal)
  }

  /** Kills it and waits until it is gone. Idempotent. */
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

/** Runs a command to its end; any exit code is a result. */
export async function runToEnd(command: readonly string[]): Promise<Finished> {
  return new Program(command).ended
}

/** Runs a command that must succeed, and returns what it printed. */
export async function mustRun(command: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await runToEnd(command)
  if (code === 0) return stdout
  throw new Error(`${command.join(' ')} ended with ${code ?? 'a signal'}: ${stderr}`)
}
