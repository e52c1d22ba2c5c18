// The rights of this process, and what they prove about those of the agent.
import { type Capability, hasCapability } from '../host/index.js'
import type { Examined } from './check.js'

/** Throws if they cannot be read. */
export async function hasNetAdmin(node: Pick<Examined, 'read'>): Promise<boolean> {
  return await hasOwn(node, 'CAP_NET_ADMIN')
}

/** As `hasNetAdmin`, for any capability. */
export async function hasOwn({ read }: Pick<Examined, 'read'>, capability: Capability): Promise<boolean> {
  const has = hasCapability((await read('/proc/self/status')) ?? '', capability)
  if (has === undefined) throw new Error('/proc/self/status shows no capabilities')
  return has
}

/** Whether another user runs this process than the agent, as far as it shows: neither root nor with CAP_NET_ADMIN. Throws as above. */
export async function isOtherUser(node: Pick<Examined, 'read'>): Promise<boolean> {
  const user = await statusLine(node.read, /^Uid:\s*\d+\s+(?<value>\d+)/mu, 'user')
  return user !== '0' && !(await hasNetAdmin(node))
}

async function statusLine(read: Examined['read'], line: RegExp, what: string): Promise<string> {
  const value = line.exec((await read('/proc/self/status')) ?? '')?.groups?.['value']
  if (value === undefined) throw new Error(`/proc/self/status shows no ${what}`)
  return value
}
