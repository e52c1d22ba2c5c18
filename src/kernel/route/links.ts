import type { IpAddress, IpFamily } from '../../address.js'

export interface Link {
  readonly name: string
  readonly index: number
  /** rtnetlink kind ("dummy", "veth"); empty for hardware and loopback. */
  readonly kind: string
  readonly isUp: boolean
}

export type LinkEvent =
  | {
      readonly kind: 'link'
      readonly change: 'add' | 'remove'
      readonly name: string
      readonly index: number
    }
  | {
      readonly kind: 'address'
      readonly change: 'add' | 'remove'
      readonly index: number
      readonly family: IpFamily
      readonly address: IpAddress
    }
  /** Events were lost: dump again. */
  | { readonly kind: 'overrun' }

/** Network interfaces of this namespace. */
export interface Links {
  list(): Promise<readonly Link[]>
  /** undefined: no such interface. */
  find(name: string): Promise<Link | undefined>
  /** Creates a dummy device, down. EEXIST when the name is taken, EOPNOTSUPP on a kernel without the dummy module. */
  addDummy(name: string): Promise<Link>
  setUp(index: number): Promise<void>
  /** ENODEV when absent. */
  remove(index: number): Promise<void>
  /** Link and address changes, in batches. Throws EBADF after `close()`. */
  watch(): LinkWatch
  close(): Promise<void>
}

export interface LinkWatch {
  /** Resolves with the next events; with undefined after close(). */
  next(): Promise<readonly LinkEvent[] | undefined>
  close(): Promise<void>
}
