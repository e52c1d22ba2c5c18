// The memory and the clock of the machine, and the lock that iptables-legacy and the agent take for each change of a legacy table.
import { agentProcesses } from './agent-checks.js'
import { type Check, type Examined, ok, problemsOr, type Verdict } from './check.js'

/** An agent at 10,000 Services needs some 160 MiB (docs/benchmarks.md). */
const littleKib = 160 * 1024
const fullPercent = 90
/** STA_UNSYNC of linux/timex.h. */
const unsynchronizedBit = 0x40

export const machineChecks: readonly Check[] = [
  {
    name: 'memory',
    looksAt:
      "MemAvailable of this machine, and memory.current against memory.max of the agent's cgroup (version 2)",
    run: async (node) => {
      const available = /^MemAvailable:\s+(?<kib>\d+) kB$/mu.exec((await node.read('/proc/meminfo')) ?? '')
        ?.groups?.['kib']
      if (available === undefined) throw new Error('/proc/meminfo shows no MemAvailable')
      const found = [...littleMemory(Number(available)), ...(await fullGroups(node))]
      return problemsOr(found, `${mebibytes(Number(available) * 1024)} available`)
    },
  },
  {
    name: 'clock-sync',
    looksAt:
      'the state of the clock in the kernel (STA_UNSYNC of adjtimex): whether a program keeps it right',
    run: async ({ kernel }) => {
      if ((kernel.clockStatus() & unsynchronizedBit) === 0)
        return ok('the kernel counts the clock as synchronized')
      return [
        {
          status: 'warning',
          seen: 'the kernel counts the clock as not synchronized',
          cause: 'A clock that drifts makes certificates and tokens count as expired or not yet valid.',
          remedy:
            'Run systemd-timesyncd, or chrony with rtcsync in chrony.conf; timedatectl shows the result.',
        },
      ]
    },
  },
]

function littleMemory(kib: number): readonly Verdict[] {
  if (kib >= littleKib) return []
  return [
    {
      status: 'warning',
      seen: `this machine has ${mebibytes(kib * 1024)} available`,
      cause: 'The kernel may refuse large tables, or end the agent.',
      remedy: 'Find the program that uses the memory, such as with ps --sort=-rss, or give the node more.',
    },
  ]
}

/** Agents whose cgroup is nearly full. A group of which no limit can be read counts as unlimited. */
async function fullGroups(node: Examined): Promise<readonly Verdict[]> {
  const found: Verdict[] = []
  for (const { pid } of agentProcesses(node)) {
    const group = /^0::(?<path>\/.*)$/mu.exec((await node.read(`/proc/${pid}/cgroup`)) ?? '')?.groups?.[
      'path'
    ]
    if (group === undefined) continue
    const place = `/sys/fs/cgroup${group === '/' ? '' : group}`
    const limit = Number((await node.read(`${place}/memory.max`)) ?? Number.NaN)
    const current = Number((await node.read(`${place}/memory.current`)) ?? Number.NaN)
    if (!(current * 100 >= limit * fullPercent)) continue
    found.push({
      status: 'warning',
      seen: `the cgroup of the agent (pid ${pid}) uses ${mebibytes(current)} of ${mebibytes(limit)}`,
      cause:
        'At its limit the kernel ends the agent, and the Services stay as they are until it has started again.',
      remedy: 'Raise the memory limit of the pod, or MemoryMax of the unit.',
    })
  }
  return found
}

function mebibytes(bytes: number): string {
  return `${Math.round(bytes / 1024 / 1024)} MiB`
}

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
