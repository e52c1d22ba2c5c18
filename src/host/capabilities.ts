// The capabilities of this process, and what needs them.
import { readFile } from 'node:fs/promises'
import { KernelError, orRefusal } from '../errors.js'
import type { Sysctl } from '../kernel/index.js'

/** Numbers of capabilities (linux/capability.h). */
const numbers = { CAP_NET_BIND_SERVICE: 10, CAP_NET_ADMIN: 12 } as const
export type Capability = keyof typeof numbers

/** Whether the effective capabilities of /proc/PID/status contain this one; undefined: the text shows none. */
export function hasCapability(processStatus: string, capability: Capability): boolean | undefined {
  const effective = /^CapEff:\s*(?<value>[0-9a-f]+)$/mu.exec(processStatus)?.groups?.['value']
  if (effective === undefined) return undefined
  return (BigInt(`0x${effective}`) & (1n << BigInt(numbers[capability]))) !== 0n
}

/** The setting with the first port that every process may bind. */
const setting = 'net/ipv4/ip_unprivileged_port_start'

/**
 * The ports below this one are those that this process may not bind, since it lacks CAP_NET_BIND_SERVICE. undefined: it may bind all, or
 * that is not known. `processStatus`: another file in tests.
 */
export async function firstFreePort({
  sysctl,
  processStatus = '/proc/self/status',
}: {
  readonly sysctl: Pick<Sysctl, 'read'>
  readonly processStatus?: string
}): Promise<number | undefined> {
  const text = await readFile(processStatus, 'utf8').catch(() => '')
  if (hasCapability(text, 'CAP_NET_BIND_SERVICE') !== false) return undefined
  const first = await orRefusal(() => sysctl.read(setting))
  // The kernel's default. Port 0 is no port.
  const port = first === undefined || first instanceof KernelError ? 1024 : Number(first)
  return port > 1 ? port : undefined
}
