// The inside of this room, for tests and benchmarks. No file of src imports it.
export type { FileSystem, WatchListener } from './manifests/file-system.js'
export type { FollowedNodes, LoadBalancerIngress, ServiceCidr } from './objects.js'
