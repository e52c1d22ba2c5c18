// A family of the recording mode, and what it needs of an agent.
import { Registry } from 'prom-client'
import type { IpFamily } from '../../src/address.js'
import { resolveConfig } from '../../src/config/index.js'
import { Family, type FamilyOptions, Intake, openProblems } from '../../src/engine/index.js'
import { openMetrics } from '../../src/metrics/index.js'
import { NodeTracker } from '../../src/node/index.js'
import { openModelKernel } from '../model/index.js'
import { ManualClock } from './manual-clock.js'
import { MemoryLog } from './pipeline-lab.js'
import { openGate } from './open-gate.js'
import { recordingMode } from './recording-mode.js'

export const syncPeriodMs = 30_000

/** The dependencies of the mode. It needs no kernel. */
export function openSurroundings() {
  const log = new MemoryLog()
  const node = new NodeTracker('here')
  const metrics = openMetrics(new Registry())
  const config = resolveConfig({ manifests: 'none' })
  return {
    clock: new ManualClock(),
    node,
    metrics,
    config,
    intake: new Intake({ config, node: openGate(node), metrics }),
    log,
    problems: openProblems({ log }),
  }
}

type Surroundings = ReturnType<typeof openSurroundings>

interface RecordingOptions extends Pick<FamilyOptions<'settings', string>, 'shareSize'> {
  /** Gets a line for each route that changed. */
  readonly records: string[]
  /** The family has freed its resources. */
  readonly onClose?: () => void
}

/** The mode in one family. */
export function openRecordingFamily(
  family: IpFamily,
  surroundings: Surroundings,
  { records, onClose = () => {}, ...rest }: RecordingOptions,
): Family<'settings', string> {
  const { metrics, problems } = surroundings
  return new Family({
    ...surroundings,
    ...openModelKernel(),
    ...rest,
    family,
    syncPeriodMs,
    metrics: metrics[family],
    warnings: problems,
    openMode: () => recordingMode(records),
    openFollowUp: () => ({
      note: () => {},
      recheckFlows: () => {},
      isOlderThan: () => false,
      run: async () => {},
      stop: async () => onClose(),
    }),
  })
}
