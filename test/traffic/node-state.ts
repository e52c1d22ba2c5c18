// The state of the node's kernel, as other programs' tools show it.
import type { Namespace } from '../support/namespaces.js'

/** Lines of `ipvsadm -Sn`, sorted. */
export async function virtualServers(node: Namespace): Promise<readonly string[]> {
  return sortedLines(await node.must('ipvsadm', '-Sn'))
}

/** Addresses of local host routes that are not the kernel's own, sorted. */
export async function localAddresses(node: Namespace): Promise<readonly string[]> {
  const addresses = []
  for (const family of ['-4', '-6']) {
    const routes = await node.must('ip', family, 'route', 'show', 'table', 'local', 'type', 'local')
    for (const line of sortedLines(routes)) {
      if (!line.includes('proto kernel')) addresses.push(line.split(' ')[1] ?? '')
    }
  }
  return addresses
}

/** Names of interfaces, sorted. */
export async function interfaceNames(node: Namespace): Promise<readonly string[]> {
  const links = sortedLines(await node.must('ip', '-oneline', 'link'))
  return links.map((line) => line.split(': ')[1]?.split('@')[0] ?? '').toSorted()
}

/** Trimmed lines that are not empty, sorted by code units. */
function sortedLines(text: string): readonly string[] {
  return text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '')
    .toSorted((a, b) => (a < b ? -1 : 1))
}
