// The relay (src/kernel/relay) beside a C proxy with splice() and a direct connection.
import { writeFileSync } from 'node:fs'
import { cpus, loadavg, release } from 'node:os'
import { join } from 'node:path'
import { step, StepError } from '../steps.mjs'
import { benchFolder, compileProgram, measurePart } from './programs.mjs'
import { formats, line } from './rows.mjs'

const { ms, us, mebibytes, percent, count } = formats
const limitSeconds = 300

/** @type {Readonly<Record<string, import('./rows.mjs').Part>>} */
const parts = {
  traffic: { title: 'the relay: 16 connections, connects, requests of one byte', rows: trafficRows },
  faults: { title: 'the relay: faults of clients and endpoints, beside another Service', rows: faultRows },
  listeners: { title: 'the relay: opening listeners', rows: listenerRows },
}

/** @param {readonly string[]} names of parts; none: all */
export async function benchRelay(names) {
  for (const name of names)
    if (!(name in parts)) throw new StepError(`no part ${name}, only ${Object.keys(parts).join(', ')}`)
  const programs = [
    await compileProgram('splice_proxy'),
    await compileProgram('stream_load'),
    await compileProgram('flood'),
  ]
  /** @type {Record<string, { load: number, figures: any }>} */
  const results = {}
  for (const name of names.length === 0 ? Object.keys(parts) : names) {
    const load = loadavg()[0] ?? Number.NaN
    const figures = await step(`Measuring ${parts[name].title}`, () =>
      measurePart('relay', [name, ...programs], { limitSeconds }),
    )
    results[name] = { load, figures }
  }
  const machine = { kernel: release(), node: process.version, cores: cpus().length }
  const text = JSON.stringify({ ...machine, date: new Date().toISOString(), parts: results }, undefined, 2)
  writeFileSync(join(benchFolder, 'relay.json'), `${text}\n`)
  for (const [name, { load, figures }] of Object.entries(results)) {
    console.log(`\n${parts[name].title} (load before: ${load.toFixed(2)})`)
    for (const row of parts[name].rows(figures)) console.log(line(row, true))
  }
}

/** @param {number} value */
function megabytes(value) {
  return `${(value / 1e6).toFixed(0)} MB/s`
}

/** @param {any} figures @returns {readonly import('./rows.mjs').Row[]} */
function trafficRows({ direct, floor, one, sixteen }) {
  const ways = [
    { title: 'one service', figures: one },
    { title: '16 services', figures: sixteen },
  ]
  return [
    { what: 'direct: bytes', value: direct.bytesPerSecond, format: megabytes },
    { what: 'C proxy: bytes', value: floor.bytesPerSecond, format: megabytes },
    { what: 'C proxy: connects per second of its CPU', value: floor.connectsPerCpuSecond, format: count },
    { what: 'direct: request', value: direct.latencyUs, format: us },
    { what: 'C proxy: request', value: floor.latencyUs, format: us },
    ...ways.flatMap(({ title, figures }) => [
      {
        what: `${title}: bytes, of the C proxy's`,
        value: figures.bytesOfFloor,
        format: percent,
        target: /** @type {const} */ (['>=', 0.5]),
        note: megabytes(figures.bytesPerSecond),
      },
      {
        what: `${title}: bytes per CPU second, of the C proxy's`,
        value: figures.cpuBytesOfFloor,
        format: percent,
      },
      {
        what: `${title}: connects per second of its CPU`,
        value: figures.connectsPerCpuSecond,
        format: count,
        target: /** @type {const} */ (['>=', 10_000]),
        note: `${count(figures.connectsPerSecond)} per second, with its client and server on the same cores`,
      },
      { what: `${title}: request`, value: figures.latencyUs, format: us },
    ]),
  ]
}

/** @param {any} figures @returns {readonly import('./rows.mjs').Row[]} */
function listenerRows(figures) {
  return Object.entries(figures).flatMap(([size, { openMs, rssMiB }]) => [
    { what: `${size} listeners: time to open`, value: openMs, format: ms },
    { what: `${size} listeners: memory of the process`, value: rssMiB, format: mebibytes },
  ])
}

/** @param {any} figures @returns {readonly import('./rows.mjs').Row[]} */
function faultRows(figures) {
  return Object.entries(figures).flatMap(([name, { before, peak, after, restMs, tcp, udp, log }]) => [
    {
      what: `${name}: memory of the process`,
      value: peak.rss,
      format: mebibytes,
      note: `before ${mebibytes(before.rss)}, after ${mebibytes(after.rss)}`,
    },
    {
      what: `${name}: slab and socket buffers of the kernel, over before`,
      value: peak.slab + peak.buffers - before.slab - before.buffers,
      format: mebibytes,
      note: `after ${mebibytes(after.slab + after.buffers - before.slab - before.buffers)}, at most ${peak.sockets} sockets`,
    },
    ...[
      { title: 'TCP', probe: tcp },
      { title: 'UDP', probe: udp },
    ].map(({ title, probe }) => ({
      what: `${name}: p99 of another ${title} Service`,
      value: probe.p99Us,
      format: us,
      note: `${probe.failed} of ${probe.tried} failed, p50 ${us(probe.p50Us)}`,
    })),
    { what: `${name}: time until all is closed`, value: restMs, format: ms, note: log.join('; ') },
  ])
}
