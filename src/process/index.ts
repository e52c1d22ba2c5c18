// In: signals, the environment of a service manager, uncaught errors. Out: notifications to the service manager; a log line under
// resource pressure; settings of V8 and its memory.
// Never: the work of the agent (agent/); the kernel's tables.
// Owner of: nothing.
// Read next: signals.ts; service-manager.ts; v8-options.ts.
export { endInOrder } from './end.js'
export { FirstEnd } from './first-end.js'
export { inheritedPortSockets } from './inherited-sockets.js'
export { setOomScore } from './oom-score.js'
export { releaseMemory } from './release-memory.js'
export { ServiceManager } from './service-manager.js'
export { followLogSignals, stopSignal } from './signals.js'
export { watchResourcePressure } from './resource-pressure.js'
export { uncaughtError } from './uncaught.js'
export { endStartOfV8, prepareV8 } from './v8-options.js'
