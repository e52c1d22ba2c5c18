// Descriptors of held ports that a service manager passes to this process: sd_listen_fds_with_names(3).

/** The first passed descriptor, and the names of native/ports/socket_store.cc. */
const firstDescriptor = 3
const nameOfPorts = /^viaduct-ports-([1-9]\d{0,8})$/

/**
 * The stored sockets of held ports, of an earlier process of this service. Empty if the variables are for another process, or absent.
 * Descriptors with other names are left alone.
 */
export function inheritedPortSockets(
  environment: Readonly<Record<string, string | undefined>>,
  pid: number,
): readonly { readonly fd: number; readonly number: number }[] {
  const { LISTEN_PID: of, LISTEN_FDS: count, LISTEN_FDNAMES: names = '' } = environment
  if (of !== String(pid) || count === undefined || !/^\d{1,7}$/.test(count)) return []
  return names
    .split(':')
    .slice(0, Number(count))
    .flatMap((name, index) => {
      const number = nameOfPorts.exec(name)?.[1]
      return number === undefined ? [] : [{ fd: firstDescriptor + index, number: Number(number) }]
    })
}
