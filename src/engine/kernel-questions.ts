// One way to ask the kernel. A refusal is a value: it is counted and reported, and the caller continues without the answer.
import type { IpFamily } from '../address.js'
import { KernelError, orRefusal } from '../errors.js'
import type { BatchOutcome } from '../kernel/index.js'
import type { StateReporter } from '../log.js'
import type { FamilyMetrics } from '../metrics/index.js'
import type { CountedOps } from './operation-counts.js'
import type { OperationKind, Pass } from './pass.js'
import type { StageTimes } from './stage-times.js'
import { logFamily } from './sync-report.js'

/** The next attempt of what a question is for. */
export interface Retry {
  fail(): void
  settle(): void
}

/** A question to the kernel, as messages name it. */
export interface Question {
  /** Names the problem while the kernel refuses. The family is added: each family has its own problem. */
  readonly key: string
  /** Begins the message, after the family: `table nat`. Default: the family alone. */
  readonly subject?: string
  /** Fields of the message, in addition to the family and the error's code. */
  readonly fields?: Readonly<Record<string, string>>
  /** Settled by an answer, failed by a refusal. */
  readonly retry?: Retry
  /** The function plans as well, and counts its own waits for the kernel. */
  readonly isPlanning?: boolean
}

export interface KernelQuestionsOptions {
  readonly family: IpFamily
  readonly metrics: Pick<FamilyMetrics, 'kernelError'>
  readonly problems: StateReporter
  /** Counts the time of each question as time of the kernel. Absent: no pass waits for the answers. */
  readonly stages?: StageTimes
}

/** Asks the kernel for one family. */
export class KernelQuestions {
  readonly #options: KernelQuestionsOptions

  constructor(options: KernelQuestionsOptions) {
    this.#options = options
  }

  /**
   * Resolves with the answer, or with the KernelError that `ask` threw. A refusal is counted, and reported as a problem until the
   * kernel answers again. Rejects with any other error.
   */
  async ask<T>(question: Question, ask: () => Promise<T>): Promise<T | KernelError> {
    const { stages } = this.#options
    const isCounted = stages !== undefined && question.isPlanning !== true
    const answer = await orRefusal(isCounted ? async () => await stages.inKernel(ask) : ask)
    this.#report(question, answer instanceof KernelError ? answer : undefined)
    return answer
  }

  /**
   * Waits for the answers to operations that a pass has sent. The pass counts them. undefined: the operations could not be sent, or their
   * answers were lost, and the pass has failed.
   */
  async answers<Op extends { readonly op: string }>(
    pass: Pick<Pass, 'count' | 'fail'>,
    kind: OperationKind<Op>,
    ops: CountedOps<Op>,
    sent: Promise<BatchOutcome>,
  ): Promise<BatchOutcome | undefined> {
    const outcome = await this.ask({ key: `kernel ${kind.name}` }, async () => await sent)
    if (outcome instanceof KernelError) {
      pass.fail(outcome)
      return undefined
    }
    pass.count(kind, ops, outcome)
    return outcome
  }

  #report({ key, subject, fields, retry }: Question, error: KernelError | undefined): void {
    const { family, metrics, problems } = this.#options
    const problem = `${key} ${family}`
    if (error === undefined) {
      retry?.settle()
      problems.report(problem, undefined)
      return
    }
    retry?.fail()
    metrics.kernelError(error.operation, error.code)
    const ipFamily = logFamily(family)
    problems.report(problem, {
      text: `${ipFamily}${subject === undefined ? '' : ` ${subject}`}: ${error.message}`,
      fields: { ipFamily, ...fields, code: error.code },
    })
  }
}
