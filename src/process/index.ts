// In: signals, the environment of a service manager, uncaught errors. Out: the end of the process, notifications to the service
// manager, warnings about overload; the settings of V8 and its memory.
// Never: the agent's work (agent/), kernel state.
// Owner of: nothing.
// Read next: signals.ts; service-manager.ts; v8-options.ts.
export { endInOrder } from './end.js'
export { FirstEnd } from './first-end.js'
export { setOomScore, type OomScoreOptions } from './oom-score.js'
export { releaseMemory } from './release-memory.js'
export { ServiceManager } from './service-manager.js'
export { followLogSignals, stopSignal } from './signals.js'
export { watchStrain, type StrainOptions } from './strain.js'
export { uncaughtError } from './uncaught.js'
export { endStartOfV8, prepareV8 } from './v8-options.js'
