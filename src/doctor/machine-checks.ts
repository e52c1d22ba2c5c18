// Memory of the machine and of the agent, and the clock.
import { agentProcesses } from './agent-process.js'
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
