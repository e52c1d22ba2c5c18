// An example of a new mode: it gets routes like any other mode, and records them instead of programming the kernel.
import type {
  Claim,
  FamilyMode,
  Layer,
  LayerState,
  OperationKind,
  Pass,
  Written,
} from '../../src/engine/index.js'
import { KernelObject, ObjectTable } from '../../src/layers/objects/index.js'
import type { ServicePortKey } from '../../src/model/index.js'

const recording: OperationKind<{ readonly op: string; readonly text: string }> = {
  name: 'records',
  describe: ({ text }) => text,
  isMetered: false,
}

/** A route as text, in place of a kernel object. */
class RecordedRoute extends KernelObject<string, string | undefined> {
  desired: string | undefined

  get isAcknowledged(): boolean {
    return this.acknowledged !== undefined
  }

  get isUnused(): boolean {
    return this.desired === undefined && !this.isAcknowledged
  }
}

class RecordingLayer implements Layer<'settings', string> {
  readonly #records: string[]
  readonly #table = new ObjectTable<string, RecordedRoute>()

  constructor(records: string[]) {
    this.#records = records
  }

  claim(key: ServicePortKey, claim: Claim<string> | undefined): void {
    const object = this.#table.get(key) ?? this.#table.add(new RecordedRoute(key, undefined))
    object.desired = claim?.desired
    this.#table.markDirty(object)
  }

  async write(pass: Pass): Promise<Written> {
    for (const object of this.#table.takeDirty()) {
      const op = { op: 'record', text: `${object.id} to ${object.desired}` }
      this.#records.push(op.text)
      pass.count(recording, [op], { applied: 1, failures: [] })
      object.acknowledged = object.desired
      this.#table.settle(object)
    }
    return { isComplete: true, sizes: { route: this.#table.acknowledgedCount } }
  }

  get state(): LayerState {
    const isWriteDue = this.#table.dirty.size > 0
    return { isWriteDue, isBehind: false, hasRefusals: false, nextInMs: undefined }
  }
}

/** The mode. `records` gets a line for each route that changed. */
export function recordingMode(records: string[]): FamilyMode<'settings', string> {
  return {
    settings: () => 'settings',
    routeSettings: (settings) => settings,
    compile: ({ clusterBackends }) => clusterBackends.map(({ address }) => address).join(' '),
    layer: new RecordingLayer(records),
    view: {
      describe: ({ decided }) => [`route ${decided.service}`],
      packetRules: () => undefined,
      differences: async () => [],
    },
  }
}
