// In: a folder of manifests (YAML, JSON) and its changes, or a Kubernetes API server. Out: ObjectEvents in batches; `synced` once
// all is known, `listed` before if it is not.
// Nodes of an API server come only after `followNodes`. ServiceCIDRs come only after `followServiceCidrs`, with a milestone of their own.
// Never: decides what is programmable (model/); deletes because a file cannot be read or a server is away; opens a connection (api/).
// Owner of: inotify watches, the last good objects of each file; watches of the API and how far each has come.
// Read next: objects.ts (what comes out); manifests/manifest-source.ts, kubernetes/reflector.ts (the stories); model/.
export type {
  SchedulingAnnotations,
  ServiceProtocol,
  ObjectKey,
  ServicePortSpec,
  Service,
  SliceEndpoint,
  EndpointSlice,
  NodeObject,
  KubernetesObject,
  ObjectChange,
  ObjectEvent,
  Source,
} from './objects.js'
export { objectOf, readLabels, schedulingAnnotations } from './objects.js'
export { openSource, type OpenedSource } from './open.js'
export { nodeFileSystem } from './manifests/file-system.js'
