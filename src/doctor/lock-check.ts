// The lock that iptables-legacy and the agent take for each change of a legacy table.
import { type Check, type Examined, ok } from './check.js'

const [looks, pauseMs] = [5, 200]

export const lockCheck: Check = {
  name: 'xtables-lock',
  looksAt: `the holder of the lock file of x_tables in /proc/locks, in up to ${looks} looks, ${pauseMs} ms apart`,
  run: async (node) => {
    const { path, id } = node.xtablesLock
    if (id === undefined) return ok(`there is no ${path}`)
    const holder = await holderOf(node, id)
    if (holder === undefined) return ok('nothing holds it')
    for (let look = 1; look < looks; look++) {
      await node.wait(pauseMs)
      const now = await holderOf(node, id)
      if (now !== holder) return ok('a program held it for a moment')
    }
    const name = (await node.read(`/proc/${holder}/comm`))?.trim() ?? 'a process of another PID namespace'
    return [
      {
        status: 'warning',
        seen: `${name} (pid ${holder}) holds ${path}: in ${looks} looks over ${((looks - 1) * pauseMs) / 1000} s`,
        cause:
          'No program can change the legacy tables meanwhile: in iptables and ipvs mode, changes of Services wait.',
        remedy: `Find out what the process waits for: cat /proc/${holder}/stack, or end it.`,
      },
    ]
  },
}

/** The process that has locked the file. undefined: none. */
async function holderOf({ read }: Examined, id: string): Promise<string | undefined> {
  const lines = ((await read('/proc/locks')) ?? '').split('\n')
  return lines
    .map((line) => /^\d+: FLOCK\s+\S+\s+WRITE (?<pid>-?\d+) (?<id>\S+) /u.exec(line)?.groups)
    .find((groups) => groups?.['id'] === id)?.['pid']
}
