import type { ServicePortKey } from '../model/index.js'

/** They come first: without the API server and the cluster's DNS nothing else works. */
const firstRoutes = ['default/kubernetes:', 'kube-system/kube-dns:']

/** Who comes first, then the others. */
export function inTurns<T>(
  items: readonly T[],
  keyOf: (item: T) => ServicePortKey | '',
): readonly [readonly T[], readonly T[]] {
  const isFirst = (item: T): boolean => firstRoutes.some((prefix) => keyOf(item).startsWith(prefix))
  return [items.filter(isFirst), items.filter((item) => !isFirst(item))]
}
