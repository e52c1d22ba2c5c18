// In: signals of the system, the environment of a service manager, errors that nobody caught. Out: what this process tells the system
// about itself, and the log when it is under strain; V8 and its memory set for the agent's life.
// Never: what the agent does (agent/), what the kernel holds.
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
