// In: a folder of manifests (YAML, JSON) and its changes. Out: ObjectEvents in batches; `synced` once all is
// known, `listed` before if it is not.
// Never: decide what is programmable (model/); delete because a file cannot be read.
// Owner of: inotify watches, the last good objects of each file.
// Read next: objects.ts (what comes out); manifests/manifest-source.ts (the story); model/.
export type * from './objects.js'
export { readLabels, schedulingAnnotations } from './objects.js'
export { openSource, type SourceDependencies } from './open.js'
export { nodeFileSystem, type FileSystem, type WatchListener } from './manifests/file-system.js'
export type { Timers } from './timers.js'
