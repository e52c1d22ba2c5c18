// The lock that iptables-legacy and the agent take for each change of a legacy table.
import { type Check, type Examined, ok, type Verdict } from './check.js'

const [looks, pauseMs] = [5, 200]

export const lockCheck: Check = {
  name: 'xtables-lock',
  looksAt: `the holder of the lock file of x_tables in /proc/locks, in up to ${looks} looks, ${pauseMs} ms apart`,
  run: async (node) => {
    const { path, id } = node.xtablesLock
    if (id === undefined) return ok(`there is no ${path}`)
    const holder = await holderOf(node, id)
    if (holder === undefined) {
      if (node.seesAllProcesses) return ok('nothing holds it')
      return usesLegacy(node) ? hidden(path) : ok('no process of this PID namespace holds it')
    }
    for (let look = 1; look < looks; look++) {
      await node.wait(pauseMs)
      const now = await holderOf(node, id)
      if (now !== holder) return ok('a program held it for a moment')
    }
    const name = (await node.read(`/proc/${holder}/comm`))?.trim()
    // The lock belongs to an open file, which the children of a process keep.
    const who = name === undefined ? `a child of the ended process ${holder}` : `${name} (pid ${holder})`
    return [
      {
        status: 'warning',
        seen: `${who} holds ${path}: in ${looks} looks over ${((looks - 1) * pauseMs) / 1000} s`,
        cause:
          'No program can change the legacy tables meanwhile: in iptables and ipvs mode, changes of Services wait.',
        remedy:
          name === undefined
            ? `Find the process that has the file open: fuser -v ${path}.`
            : `Find out what the process waits for: cat /proc/${holder}/stack, or end it.`,
      },
    ]
  },
}

function usesLegacy({ modes: { chosen } }: Examined): boolean {
  return chosen === undefined || chosen.endsWith('(legacy)')
}

/** fs/locks.c leaves out the locks of processes that the reader's PID namespace does not contain. */
function hidden(path: string): readonly Verdict[] {
  return [
    {
      status: 'unknown',
      seen: `no process of this PID namespace holds ${path}, and /proc/locks hides the holders of others`,
      cause: 'While a program of the node holds the lock, nothing can change the legacy tables.',
      remedy:
        "Run the doctor with the host's processes (hostPID), or look on the node: lslocks; on a node that is itself a container, such as one of kind, this stays unknown.",
    },
  ]
}

/** The process that has locked the file. undefined: none. */
async function holderOf({ read }: Examined, id: string): Promise<string | undefined> {
  const lines = ((await read('/proc/locks')) ?? '').split('\n')
  return lines
    .map((line) => /^\d+: FLOCK\s+\S+\s+WRITE (?<pid>-?\d+) (?<id>\S+) /u.exec(line)?.groups)
    .find((groups) => groups?.['id'] === id)?.['pid']
}
