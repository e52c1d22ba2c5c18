// The programs that the shipped agent runs.
import { readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { changesMs, onStage, type Setting } from './stage.js'

const restMs = 3000

/** Programs that the agent executes, itself left out: every thread and child is traced. */
export async function executedPrograms(setting: Setting): Promise<Record<string, number>> {
  const tracedChanges = 3
  const trace = join(tmpdir(), 'programs.trace')
  // Calls that did not succeed count too.
  const executed = (): number => readFileSync(trace, 'utf8').match(/ execve(at)?\(/g)?.length ?? 0
  const under = ['strace', '-D', '-f', '-qq', '--seccomp-bpf', '-e', 'trace=execve,execveat', '-o', trace]
  const counts = await onStage(
    setting,
    async (stage) => {
      await sleep(restMs)
      const start = executed() - 1
      await changesMs(stage, 'add', tracedChanges)
      return { start, perChange: (executed() - 1 - start) / tracedChanges }
    },
    { under },
  )
  rmSync(trace)
  if (counts.start < 0) throw new Error('strace did not see the agent itself start')
  return counts
}
