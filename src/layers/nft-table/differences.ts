import type { IpFamily } from '../../address.js'
import type { NfOp, Nftables } from '../../kernel/index.js'
import type { DesiredRoute } from './compile/desired.js'
import { type DesiredElement, elementsOf } from './compile/elements.js'
import { describeElement, packedElement } from './describe.js'

/**
 * The elements of a route that the kernel does not have, a sentence each. A dry run of their deletion asks for these elements alone: the
 * kernel names those that are absent, and deletes none. Throws KernelError.
 */
export async function differences(
  desired: DesiredRoute,
  family: IpFamily,
  nftables: Pick<Nftables, 'apply'>,
): Promise<readonly string[]> {
  const elements = [...elementsByText(desired, family)]
  const deletions = elements.map(([, element]): NfOp => ({
    op: 'delete-elements',
    elements: packedElement(element),
  }))
  const { failures } = await nftables.apply(deletions, { isDryRun: true })
  return failures.map(({ operation, error }) => {
    if (operation === undefined) throw error
    const text = elements[operation]?.[0] ?? ''
    return error.code === 'ENOENT' ? `${text} is missing` : `${text}: ${error.message}`
  })
}

/** Each element once: a second deletion of one would fail. */
function elementsByText(desired: DesiredRoute, family: IpFamily): ReadonlyMap<string, DesiredElement> {
  return new Map([...elementsOf(desired, family)].map((element) => [describeElement(element), element]))
}
