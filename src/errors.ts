// The four kinds of error that leave a room. Match on `code` or `name`, never on text.
import { constants } from 'node:os'

/**
 * Codes of linux/netfilter/ipset/ip_set.h and ip_set_hash.h that are no errno; they are higher than every errno
 * (src/kernel/ipset/real-ipset.ts has the others).
 */
export const ipsetErrno = {
  IPSET_ERR_PROTOCOL: 4097,
  IPSET_ERR_FIND_TYPE: 4098,
  IPSET_ERR_MAX_SETS: 4099,
  IPSET_ERR_TYPE_MISMATCH: 4102,
  IPSET_ERR_INVALID_CIDR: 4104,
  IPSET_ERR_INVALID_FAMILY: 4106,
  IPSET_ERR_COMMENT: 4112,
  IPSET_ERR_SKBINFO: 4114,
  IPSET_ERR_HASH_FULL: 4352,
  IPSET_ERR_HASH_ELEM: 4353,
  IPSET_ERR_INVALID_PROTO: 4354,
  IPSET_ERR_MISSING_PROTO: 4355,
} as const

/** Codes of linux/errno.h that node:os does not name: a transaction of nf_tables came too late. */
export const linuxErrno = { ERESTART: 85 } as const

export type ErrnoName =
  keyof typeof constants.errno | keyof typeof ipsetErrno | keyof typeof linuxErrno | `E${number}`

// Of two names for one number, this is the one in the kernel's sources.
const errnoNames = new Map<number, ErrnoName>([
  [constants.errno.EOPNOTSUPP, 'EOPNOTSUPP'],
  [constants.errno.EAGAIN, 'EAGAIN'],
])
for (const [name, number] of Object.entries(constants.errno)) {
  if (!errnoNames.has(number) && isErrnoName(name)) errnoNames.set(number, name)
}

for (const [name, number] of Object.entries({ ...ipsetErrno, ...linuxErrno }))
  if (isErrnoName(name)) errnoNames.set(number, name)

function isErrnoName(
  name: string,
): name is keyof typeof constants.errno | keyof typeof ipsetErrno | keyof typeof linuxErrno {
  return name in constants.errno || name in ipsetErrno || name in linuxErrno
}

/** Name of a positive errno; `E<number>` if this platform has no name for it. */
export function errnoName(errno: number): ErrnoName {
  return errnoNames.get(errno) ?? `E${errno}`
}

export interface KernelErrorFields {
  readonly errno: number
  readonly subsystem:
    'ipvs' | 'route' | 'sysctl' | 'xtables' | 'conntrack' | 'nftables' | 'ipset' | 'ports' | 'relay' | 'addon'
  readonly operation: string
  readonly family?: 'ipv4' | 'ipv6' | 'none'
  readonly object?: string
  readonly extack?: string
}

/** A refusal by the kernel: operation, object, errno, and the kernel's message. */
export class KernelError extends Error {
  override readonly name = 'KernelError'
  readonly code: ErrnoName
  readonly errno: number
  readonly subsystem: KernelErrorFields['subsystem']
  readonly operation: string
  readonly family: 'ipv4' | 'ipv6' | 'none'
  readonly object: string | undefined
  readonly extack: string | undefined

  constructor(fields: KernelErrorFields) {
    const code = errnoName(fields.errno)
    const object = fields.object === undefined ? '' : ` ${fields.object}`
    const extack = fields.extack ? ` (${fields.extack})` : ''
    super(`${fields.subsystem}: ${fields.operation}${object}: ${code}${extack}`)
    this.code = code
    this.errno = fields.errno
    this.subsystem = fields.subsystem
    this.operation = fields.operation
    this.family = fields.family ?? 'none'
    this.object = fields.object
    this.extack = fields.extack
  }
}

/** A wrong setting, flag, manifest or object field: its place, its value, and what is right. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
  readonly path: string
  /** The message without the path. */
  readonly problem: string
  /** The code of the system call that failed; undefined: none did. */
  readonly code: string | undefined

  constructor(path: string, problem: string, code?: string) {
    super(path === '' ? problem : `${path}: ${problem}`)
    this.path = path
    this.problem = problem
    this.code = code
  }
}

/** Compares names, because modules that are bundled apart from the agent (docs/adr/0016) have their own class. */
export function isConfigError(error: unknown): error is ConfigError {
  return error instanceof Error && error.name === 'ConfigError'
}

/** A broken invariant of Viaduct: a bug. */
export class BugError extends Error {
  override readonly name = 'BugError'
}

export function isNotFound(error: KernelError): boolean {
  return error.code === 'ENOENT' || error.code === 'ESRCH'
}

export function isExists(error: KernelError): boolean {
  return error.code === 'EEXIST'
}

/** Whether this process may not do what it asked for. */
export function isDenied(error: unknown): boolean {
  return ['EACCES', 'EPERM'].includes(codeOf(error) ?? '')
}

/** The code of the system call that failed; undefined: none. */
export function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
}

/** Errnos of temporary conditions: another program holds a lock, or memory, files or socket buffers are exhausted. */
const transientCodes: ReadonlySet<ErrnoName> = new Set([
  'EAGAIN',
  'EINTR',
  'EMFILE',
  'ENFILE',
  'ENOBUFS',
  'ENOMEM',
])

/** Whether the same call may succeed later without a correction. */
export function isTransient(error: unknown): boolean {
  return error instanceof KernelError && transientCodes.has(error.code)
}

/** Whether the same call fails again without a correction. */
export function isPermanent(error: KernelError): boolean {
  return !isTransient(error)
}

/**
 * Resolves with the answer of the kernel, or with the KernelError that `ask` threw and that `isExpected` accepts (default: each one).
 * Nothing is reported. Rejects with any other error.
 */
export async function orRefusal<T>(
  ask: () => Promise<T>,
  isExpected?: (error: KernelError) => boolean,
): Promise<T | KernelError> {
  try {
    return await ask()
  } catch (error) {
    return asRefusal(error, isExpected)
  }
}

/** Returns the error if it is a KernelError that `isExpected` accepts (default: each one), and throws any other error. */
export function asRefusal(
  error: unknown,
  isExpected: (refusal: KernelError) => boolean = () => true,
): KernelError {
  if (error instanceof KernelError && isExpected(error)) return error
  throw error
}
