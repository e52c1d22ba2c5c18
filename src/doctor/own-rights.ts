// The rights of this process, and what they prove about those of the agent.
import type { Examined } from './check.js'

const netAdmin = 12

/** Throws if they cannot be read. */
export async function hasNetAdmin({ read }: Pick<Examined, 'read'>): Promise<boolean> {
  const effective = await statusLine(read, /^CapEff:\s*(?<value>[0-9a-f]+)$/mu, 'capabilities')
  return (BigInt(`0x${effective}`) & (1n << BigInt(netAdmin))) !== 0n
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
