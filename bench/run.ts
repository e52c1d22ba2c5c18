// Runs every program of the comparison in its own network namespace, on a kernel with IP_VS, and writes the figures as JSON:
//   node run.js FLOOR_BINARY WHOLE_PROGRAM OUTPUT_FILE
import { execFileSync } from 'node:child_process'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { ipBatch, ipsetRestore, ipvsadmRestore, nodePortServices } from './state.js'

const services = 10_000
const contenderLimitMs = 600_000
const [floor = '', whole = '', output = ''] = process.argv.slice(2)
const viaduct = `${process.execPath} --expose-gc ${fileURLToPath(new URL('./viaduct.js', import.meta.url))}`
const folder = mkdtempSync(join(tmpdir(), 'viaduct-bench-'))
const device = 'ip link add kube-ipvs0 type dummy'

/** Runs one line of sh in a fresh namespace with `lo` up. */
function inNamespace(line: string): string {
  console.error(`  ${line}`)
  const script = `ip link set lo up; ${line}`
  return execFileSync('unshare', ['-n', 'sh', '-ec', script], { encoding: 'utf8', timeout: contenderLimitMs })
}

/** The JSON line that the last command of `line` prints. */
function measured(line: string): Record<string, number> {
  const lines = inNamespace(line).trim().split('\n')
  return Value.Parse(Type.Record(Type.String(), Type.Number()), JSON.parse(lines.at(-1) ?? ''))
}

/** Seconds of a tool that reads `input`. */
function timed(
  name: string,
  tool: string,
  { input, before = 'true' }: { readonly input: string; readonly before?: string },
): number {
  const file = join(folder, name)
  writeFileSync(file, input)
  const line = `${before}; start=$(date +%s.%N); ${tool.replace('FILE', file)}; end=$(date +%s.%N); echo "$start $end"`
  const [start = NaN, end = NaN] = inNamespace(line).trim().split(' ').map(Number)
  return end - start
}

function measure(reals: number): Record<string, unknown> {
  const size = `${services} ${reals}`
  return {
    services,
    reals,
    floorOneAck: measured(`${floor} add ${size}`)['seconds'],
    floorBatch: measured(`${floor} add-batch ${size}`)['seconds'],
    floorReadPerService: measured(`${floor} add-batch ${size} >/dev/null; ${floor} read ${services}`)[
      'seconds'
    ],
    viaduct: measured(`${viaduct} ledger ${size}`),
    viaductWarm: measured(`${viaduct} warm ${size}`),
  }
}

function measureBinding(): Record<string, unknown> {
  return {
    floorRoutes: measured(`${floor} routes ${services}`)['seconds'],
    floorAddresses: measured(`${device}; ${floor} addresses ${services}`)['seconds'],
    ipBatchRoutes: timed('routes', 'ip -batch FILE', { input: ipBatch(services, 'routes') }),
    ipBatchAddresses: timed('addresses', 'ip -batch FILE', {
      input: ipBatch(services, 'addresses'),
      before: device,
    }),
    viaductRoutes: measured(`${device}; ${viaduct} pipeline ${services} 1 routes`),
    viaductAddresses: measured(`${device}; ${viaduct} pipeline ${services} 1 addresses`),
  }
}

/** All of ipvs mode, with node ports. Tables and set types are loaded before the time of the tools begins. */
function measureWhole(): Record<string, unknown> {
  const reals = 10
  const address = '192.0.2.1'
  const withAddress = `ip addr add ${address}/32 dev lo`
  const run = (size: string): Record<string, number> =>
    measured(`${withAddress}; ${process.execPath} --expose-gc ${whole} -- ${size}`)
  return {
    viaduct: run(`${services} ${reals}`),
    small: run('100 1'),
    floorBatch: measured(`${floor} add-batch ${services + nodePortServices(services)} ${reals}`)['seconds'],
    floorRoutes: measured(`${floor} routes-batch ${services}`)['seconds'],
    floorSets: measured(`${floor} sets ${services} ${nodePortServices(services)}`)['seconds'],
    ipvsadmRestore: timed('ipvsadm-whole', 'ipvsadm -R < FILE', {
      input: ipvsadmRestore(services, reals, address),
    }),
    ipsetRestore: timed('ipset', 'ipset restore < FILE', { input: ipsetRestore(services) }),
    ipBatch: timed('routes', 'ip -batch FILE', { input: ipBatch(services, 'routes') }),
  }
}

const figures = {
  kernel: execFileSync('uname', ['-r'], { encoding: 'utf8' }).trim(),
  node: process.version,
  small: measured(`${viaduct} ledger 100 1`),
  one: measure(1),
  ipvsadmRestore: timed('ipvsadm', 'ipvsadm -R < FILE', { input: ipvsadmRestore(services, 1) }),
  ten: measure(10),
  binding: measureBinding(),
  whole: measureWhole(),
}
writeFileSync(output, `${JSON.stringify(figures, undefined, 2)}\n`)
