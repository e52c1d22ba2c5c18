// Commands to put in front of the agent's, which take rights away.

const hide = 'mount --bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys && exec "$@"'

/** As a container without privileges has them: CAP_NET_ADMIN alone could write there. */
export const withReadOnlySettings: readonly string[] = ['unshare', '--mount', 'sh', '-c', hide, 'sh']

const alone = '-all,+net_admin'

/** CAP_NET_ADMIN and no other capability; as root unless `user` is one, by its number. */
export function withNetAdminAlone(user?: number): readonly string[] {
  const other =
    user === undefined
      ? []
      : [`--reuid=${user}`, `--regid=${user}`, '--clear-groups', `--ambient-caps=${alone}`]
  // Another user's program would not die with the test.
  const rest = ['--no-new-privs', `--inh-caps=${alone}`, `--bounding-set=${alone}`, '--pdeathsig', 'KILL']
  return ['setpriv', ...other, ...rest]
}

/** `CapEff` of /proc/PID/status then. */
export const netAdminAlone = '0000000000001000'
