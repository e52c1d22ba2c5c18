// Changes a table while loops call the iptables tool, in its own process and network namespace. Prints one JSON line.
//
//   node lock.js SERVICES LOOPS CHANGES     LOOPS shells, each of which runs `iptables-legacy -w` repeatedly
import { once } from 'node:events'
import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { openKernel, type XtOp, type XtRule } from '../../src/kernel/index.js'

const [services = 0, loops = 0, changes = 0] = process.argv.slice(2).map(Number)
/** Time between two changes, so that the loops wait mainly for each other. */
const restMs = 50

/** A shell loop that prints the microseconds of each call. */
const loop = `while :; do
  start=$EPOCHREALTIME
  iptables-legacy -w -t nat -C OUTPUT -j ACCEPT 2> /dev/null
  end=$EPOCHREALTIME
  echo $((\${end/[.,]/} - \${start/[.,]/}))
done`

function chain(i: number, port: number): XtOp {
  const target = { kind: 'mark', value: port, mask: 0xffff } as const
  const rules: readonly XtRule[] = [{ protocol: 'tcp', destinationPorts: [port, port], target }]
  return { op: 'set-chain', chain: `KUBE-SVC-${i}`, rules }
}

function quantile(sorted: readonly number[], share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
}

const kernel = openKernel({ addonPath: process.env['VIADUCT_ADDON'] })
const nat = kernel.xtables('ipv4', 'nat')
await nat.apply(Array.from({ length: services }, (_, i) => chain(i, 80)))

const theirMs: number[] = []
const shells = Array.from({ length: loops }, () =>
  spawn('bash', ['-c', loop], { stdio: ['ignore', 'pipe', 'inherit'] }),
)
for (const { stdout } of shells)
  createInterface(stdout).on('line', (line) => theirMs.push(Number(line) / 1000))
await sleep(500)

const ourMs: number[] = []
const waitMs: number[] = []
let failures = 0
for (let i = 0; i < changes; i++) {
  const start = performance.now()
  try {
    waitMs.push((await nat.apply([chain(i % services, 1000 + i)])).lockWaitMs)
  } catch {
    failures++
  }
  ourMs.push(performance.now() - start)
  await sleep(restMs)
}

for (const shell of shells) shell.kill('SIGKILL')
await Promise.all(shells.map((shell) => once(shell, 'close')))
await kernel.close()
const spread = (figures: readonly number[]) => {
  const sorted = figures.toSorted((a, b) => a - b)
  return {
    count: sorted.length,
    medianMs: quantile(sorted, 0.5),
    p99Ms: quantile(sorted, 0.99),
    maxMs: sorted.at(-1),
  }
}
const figures = { failures, ours: spread(ourMs), lockWait: spread(waitMs), theirs: spread(theirMs) }
process.stdout.write(`${JSON.stringify(figures)}\n`)
