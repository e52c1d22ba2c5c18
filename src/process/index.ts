// In: signals, the environment of a service manager, uncaught errors. Out: notifications to the service manager; a log line under
// resource pressure; settings of V8 and its memory.
// Never: the work of the agent (agent/); the kernel's tables.
// Owner of: nothing.
// Read next: end.ts; service-manager.ts; resources.ts.
export { endInOrder, FirstEnd, followLogSignals, stopSignal, uncaughtError } from './end.js'
export { inheritedPortSockets, ServiceManager } from './service-manager.js'
export { setOomScore, releaseMemory, watchResourcePressure, endStartOfV8, prepareV8 } from './resources.js'
