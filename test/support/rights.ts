// Commands that start another command with fewer rights.
import { join } from 'node:path'
import { treeRoot } from './tree.js'

const hide = 'mount --bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys && exec "$@"'

/** /proc/sys is read-only, as in a container without privileges. CAP_NET_ADMIN alone could otherwise write there. */
export const withReadOnlySettings: readonly string[] = ['unshare', '--mount', 'sh', '-c', hide, 'sh']

/** Only CAP_NET_ADMIN. `user`: the user id; absent: root. */
export function withNetAdminAlone(user?: number): readonly string[] {
  return withRights(['net_admin'], user)
}

/** Only these capabilities, as setpriv names them. `user`: the user id; absent: root. */
export function withRights(capabilities: readonly string[], user?: number): readonly string[] {
  const alone = ['-all', ...capabilities.map((name) => `+${name}`)].join(',')
  const other =
    user === undefined
      ? []
      : [`--reuid=${user}`, `--regid=${user}`, '--clear-groups', `--ambient-caps=${alone}`]
  // Without --pdeathsig the program of another user would outlive the test.
  const rest = ['--no-new-privs', `--inh-caps=${alone}`, `--bounding-set=${alone}`, '--pdeathsig', 'KILL']
  return ['setpriv', ...other, ...rest]
}

/** Its IPv6 sockets are refused with EAFNOSUPPORT. */
export const withoutIpv6Sockets: readonly string[] = [
  'python3',
  join(treeRoot, 'test/support/without-ipv6-sockets.py'),
]

/** `CapEff` in /proc/PID/status of a process with only CAP_NET_ADMIN. */
export const netAdminAlone = '0000000000001000'
