// Probes for the types of sets that ipvs mode needs: makes a set, for which the kernel loads the type's module, and destroys it.
import type { KernelError } from '../../errors.js'
import type { Ipset, IpsetHeader, IpsetOp, IpsetSettings, IpsetType } from '../../kernel/index.js'

/** The smallest set that a kernel makes. */
const probeSize = { family: 'ipv4', maxElements: 64, hashSize: 64, hasComments: false } as const

/** Prefix of the names of probes; a number follows. */
const probePrefix = 'viaduct-probe-'
const probeName = /^viaduct-probe-\d+$/u

/** Whether the set is a probe that a killed process left: by its name, without entries, and without a rule that refers to it. */
export function isLeftProbe({ name, elements, references }: IpsetHeader): boolean {
  return probeName.test(name) && elements === 0 && references === 0
}

/**
 * A type that a set has is available; the others are probed. Removes probes that a killed process left. Throws KernelError if the
 * kernel lacks a type, or ipset.
 */
export async function checkSetTypes(
  ipset: Ipset,
  wanted: readonly { readonly type: IpsetType; readonly hasMarks?: boolean }[],
): Promise<void> {
  const present = await ipset.sets()
  const left = present.filter(isLeftProbe)
  const known = new Set(present.filter((header) => !left.includes(header)).map(kindOf))
  const kinds = new Map(wanted.map((spec) => [kindOf(spec), spec]))
  const probes: readonly IpsetSettings[] = [...kinds]
    .filter(([kind]) => !known.has(kind))
    .map(([, { type, hasMarks = false }], index) => ({
      ...probeSize,
      name: `${probePrefix}${index}`,
      type,
      hasMarks,
    }))
  const ops: readonly IpsetOp[] = [
    ...left.map(({ name }): IpsetOp => ({ op: 'destroy-set', name })),
    ...probes.flatMap((set): readonly IpsetOp[] => [
      { op: 'create-set', set },
      { op: 'destroy-set', name: set.name },
    ]),
  ]
  const { failures } = await ipset.apply(ops)
  const failure = failures.find(({ error }) => isWithoutIpset(error))
  if (failure !== undefined) throw failure.error
}

/** The kernel has no ipset, or lacks a type of set. */
export function isWithoutIpset({ subsystem, code }: KernelError): boolean {
  return subsystem === 'ipset' && (code === 'EPROTONOSUPPORT' || code === 'IPSET_ERR_FIND_TYPE')
}

function kindOf({ type, hasMarks = false }: { readonly type: string; readonly hasMarks?: boolean }): string {
  return hasMarks ? `${type} with marks` : type
}
