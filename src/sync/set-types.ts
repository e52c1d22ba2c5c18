// Whether the kernel has the types of sets that ipvs mode needs shows when one is made: that loads the type's module.
import type { KernelError } from '../errors.js'
import type { Ipset, IpsetOp, IpsetSettings, IpsetType } from '../kernel/index.js'

/** The smallest that a kernel makes. */
const probeSize = { family: 'ipv4', maxElements: 64, hashSize: 64, hasComments: false } as const

/** A type that a set has works; the others are tried. Throws KernelError where the kernel lacks one, or ipset altogether. */
export async function checkSetTypes(
  ipset: Ipset,
  wanted: readonly { readonly type: IpsetType; readonly hasMarks?: boolean }[],
): Promise<void> {
  const known = new Set((await ipset.sets()).map(kindOf))
  const kinds = new Map(wanted.map((spec) => [kindOf(spec), spec]))
  const probes: readonly IpsetSettings[] = [...kinds]
    .filter(([kind]) => !known.has(kind))
    .map(([, { type, hasMarks = false }], index) => ({
      ...probeSize,
      name: `viaduct-probe-${index}`,
      type,
      hasMarks,
    }))
  const ops = probes.flatMap((set): readonly IpsetOp[] => [
    { op: 'create-set', set },
    { op: 'destroy-set', name: set.name },
  ])
  const { failures } = await ipset.apply(ops)
  const failure = failures.find(({ error }) => isWithoutIpset(error))
  if (failure !== undefined) throw failure.error
}

/** The kernel has no ipset, or not a type of set. */
export function isWithoutIpset({ subsystem, code }: KernelError): boolean {
  return subsystem === 'ipset' && (code === 'EPROTONOSUPPORT' || code === 'IPSET_ERR_FIND_TYPE')
}

function kindOf({ type, hasMarks = false }: { readonly type: string; readonly hasMarks?: boolean }): string {
  return hasMarks ? `${type} with marks` : type
}
