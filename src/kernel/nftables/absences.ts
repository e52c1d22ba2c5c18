import type { KernelError } from '../../errors.js'

/** Errors of a read on a kernel without nfnetlink (EPROTONOSUPPORT) or without nf_tables (EINVAL of nfnetlink_rcv_msg()). */
const codes: ReadonlySet<string> = new Set(['EPROTONOSUPPORT', 'EINVAL'])

/** Whether a read of all objects of a family failed because the kernel has no nf_tables: there are none. */
export function isWithoutNftables({ code }: KernelError): boolean {
  return codes.has(code)
}
