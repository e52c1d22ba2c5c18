/** Without the API server and the cluster's DNS nothing else works. */
const firstServices: ReadonlySet<string> = new Set(['default/kubernetes', 'kube-system/kube-dns'])

/** Whether this Service, `namespace/name`, comes before the others in a first sync. */
export function isFirstService(service: string): boolean {
  return firstServices.has(service)
}
