// The netlink requests of a program and the programs that it executes, read from the output of strace.
import { readFile } from 'node:fs/promises'

/** Commands of generic netlink family IPVS (linux/ip_vs.h IPVS_CMD_*). */
const ipvsCommands = (
  'UNSPEC NEW_SERVICE SET_SERVICE DEL_SERVICE GET_SERVICE NEW_DEST SET_DEST DEL_DEST GET_DEST ' +
  'NEW_DAEMON DEL_DAEMON GET_DAEMON SET_CONFIG GET_CONFIG SET_INFO GET_INFO ZERO FLUSH'
).split(' ')

/** Number of sent requests by name: `NEW_DEST`, `RTM_NEWROUTE`, ... */
export type RequestCounts = Readonly<Record<string, number>>

/**
 * A command prefix that traces into `file`. The traced program keeps the process id and the signals (-D). Other system calls run at
 * full speed.
 */
export function traced(file: string): readonly string[] {
  const what = ['-e', 'trace=execve,sendmsg,sendto', '-e', 'signal=none', '-v', '-s', '256']
  return ['strace', '-D', '-f', '--seccomp-bpf', '-o', file, ...what]
}

/** A trace of a running program. Each `take` reads the part since the last one. */
export class Trace {
  readonly #file: string
  #read = 0

  constructor(file: string) {
    this.#file = file
  }

  /** Requests since the last call that change the kernel, without reads. */
  async takeWrites(): Promise<RequestCounts> {
    const text = await readFile(this.#file, 'utf8')
    const complete = text.slice(this.#read, text.lastIndexOf('\n') + 1)
    this.#read += complete.length
    const counts: Record<string, number> = {}
    for (const name of requestNames(complete)) {
      if (!/GET|INFO/.test(name)) counts[name] = (counts[name] ?? 0) + 1
    }
    return counts
  }

  /** Executed programs, the traced one first. */
  async executed(): Promise<readonly string[]> {
    const text = await readFile(this.#file, 'utf8')
    return [...text.matchAll(/execve\("([^"]*)"/g)].map((match) => match[1] ?? '')
  }
}

/** Names of all requests in lines of strace, in order, without requests to the generic netlink controller. */
export function requestNames(text: string): readonly string[] {
  const names: string[] = []
  // The type as strace names it, the rest of the header, and the first byte of an undecoded payload.
  for (const match of text.matchAll(/nlmsg_type=(\w+)[^}]*\}(?:, "\\x([0-9a-f]{2}))?/g)) {
    const [, type = '', first] = match
    if (type.startsWith('RTM_')) names.push(type)
    else if (type !== 'nlctrl' && first !== undefined)
      names.push(ipvsCommands[parseInt(first, 16)] ?? `command ${first}`)
  }
  return names
}

/** As `traced`, with the system calls that write legacy x_tables, and whole transactions of nf_tables. */
export function tracedWrites(file: string): readonly string[] {
  const what = ['-e', 'trace=sendmsg,sendto,setsockopt', '-e', 'signal=none', '-v', '-s', '32']
  return ['strace', '-D', '-f', '--seccomp-bpf', '-o', file, ...what]
}

/** Kinds of writes to virtual servers, rules, routes and addresses, ordered by the first write of each kind. */
export function orderOfWrites(text: string): Readonly<Record<'IPv4' | 'IPv6', readonly string[]>> {
  const order = { IPv4: new Set<string>(), IPv6: new Set<string>() }
  for (const line of text.split('\n')) {
    const rules = /IP(6?)T_SO_(SET_REPLACE)/u.exec(line)
    // The first message of a transaction has its family. A dry run has no end.
    const transaction = /NFNL_MSG_BATCH_BEGIN,.*?nfgen_family=AF_INET(6?),.*NFNL_MSG_BATCH_END,/u.exec(line)
    const binding = /nlmsg_type=(RTM_(?:NEW|DEL)(?:ROUTE|ADDR)),.*?_family=AF_INET(6?)/u.exec(line)
    // The command, its version, and the family, which is the first attribute of a virtual server.
    const server = /nlmsg_type=IPVS,[^}]*\}, "\\x0([1-7])(?:\\x..){3}(?:\\x..){8}\\x(0[2a])/u.exec(line)
    if (rules !== null) order[rules[1] === '6' ? 'IPv6' : 'IPv4'].add(rules[2] ?? '')
    if (transaction !== null) order[transaction[1] === '6' ? 'IPv6' : 'IPv4'].add('NFT_TRANSACTION')
    if (binding !== null) order[binding[2] === '6' ? 'IPv6' : 'IPv4'].add(binding[1] ?? '')
    const command = ipvsCommands[Number(server?.[1])]
    if (command !== undefined && command !== 'GET_SERVICE')
      order[server?.[2] === '0a' ? 'IPv6' : 'IPv4'].add(command)
  }
  return { IPv4: [...order.IPv4], IPv6: [...order.IPv6] }
}
