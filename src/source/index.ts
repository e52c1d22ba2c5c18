// In: a folder of manifests (YAML, JSON) and its changes, or a Kubernetes API server. Out: ObjectEvents in batches; `synced` once
// all is known, `listed` before if it is not.
// Never: decide what is programmable (model/); delete because a file cannot be read or a server is away.
// Owner of: inotify watches, the last good objects of each file; watches of the API and how far each has come.
// Read next: objects.ts (what comes out); manifests/manifest-source.ts, kubernetes/reflector.ts (the stories); model/.
export type * from './objects.js'
export { readLabels, schedulingAnnotations } from './objects.js'
export { openSource, type OpenedSource, type SourceDependencies } from './open.js'
export { ApiError } from './kubernetes/api-error.js'
export type { ApiClient, ApiWrite } from './kubernetes/api-client.js'
export type { ClientOptions } from './kubernetes/client-options.js'
export { openApiClient } from './kubernetes/open-api-client.js'
export { nodeFileSystem, type FileSystem, type WatchListener } from './manifests/file-system.js'
export type { Timers } from './timers.js'
