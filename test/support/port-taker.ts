// A program that has a port, as any server of the machine might.
import { join } from 'node:path'
import type { IpAddress, IpFamily } from '../../src/address.js'
import type { Namespace } from './namespaces.js'
import { Program } from './processes.js'
import { treeRoot } from './tree.js'

export interface TakenPort {
  readonly family: IpFamily
  readonly protocol: 'tcp' | 'udp' | 'sctp'
  /** undefined: every address. */
  readonly address: IpAddress | undefined
  readonly port: number
  /** An IPv6 socket on every address that takes IPv4 too. */
  readonly isDualStack?: boolean
}

/** Starts the program, in a namespace or here. undefined: it could not bind the port (EADDRINUSE). Throws for any other error. */
export async function takePort(taken: TakenPort, namespace?: Namespace): Promise<Program | undefined> {
  const { family, protocol, address, port, isDualStack = false } = taken
  const host = address ?? (family === 'ipv4' ? '0.0.0.0' : '::')
  const command = [
    'python3',
    join(treeRoot, 'test/support/port-taker.py'),
    protocol,
    family === 'ipv4' ? '4' : '6',
    host,
    String(port),
    ...(isDualStack ? ['dual'] : []),
  ]
  const program = namespace === undefined ? new Program(command) : namespace.start(...command)
  const result = await program.line(() => true)
  if (result === 'bound') return program
  await program.ended
  if (result !== 'EADDRINUSE') throw new Error(`port-taker.py: ${result}`)
  return undefined
}
