// In: signals of the system, the environment of a service manager. Out: what this process tells the system, V8 and its memory set for
// the agent's life.
// Never: what the agent does (agent/), what the kernel holds.
// Owner of: nothing.
// Read next: signals.ts; service-manager.ts; v8-options.ts.
export { releaseMemory } from './release-memory.js'
export { ServiceManager } from './service-manager.js'
export { followLogSignals, stopSignal } from './signals.js'
export { endStartOfV8, prepareV8 } from './v8-options.js'
