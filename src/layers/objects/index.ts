// In: the objects that a layer desires, and the kernel's answers. Out: the operations from one to the other; refused objects, to retry.
// Never: a kind of kernel object: the layer supplies its key, its equality and its operations.
// Owner of: nothing. A layer owns its tables.
// Read next: object-table.ts, object-batch.ts (an answer for each operation), transaction.ts (one answer for all), failed-objects.ts.
export {
  type Drift,
  DriftCounter,
  Holdings,
  KernelObject,
  ObjectTable,
  type TrackedObject,
} from './object-table.js'
export { FailedObjects } from './failed-objects.js'
export {
  type Confirmation,
  type Cut,
  type Failed,
  type Meaning,
  type ObjectBatch,
  type ObjectKind,
  confirmBatch,
  disownBatch,
  planBatch,
  inOverlappingCuts,
} from './object-batch.js'
export { LeftOutObjects, sendTransaction } from './transaction.js'
export { RetryQueue } from './retry-queue.js'
