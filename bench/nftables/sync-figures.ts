// The tables of the mode alone, beside a plain C program and nft, in turns, so that ratios hold on a busy machine.
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Type, type Static } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { schemaOf } from '../../src/layers/nft-table/compile/schema.js'
import type { Size } from '../stage/manifests.js'
import { mustRun } from '../../test/support/processes.js'
import { medians } from '../stage/figures.js'

const syncProgram = fileURLToPath(new URL('./sync.js', import.meta.url))
const elementsProgram = fileURLToPath(new URL('./elements.js', import.meta.url))
const rounds = 3

const Figures = Type.Record(Type.String(), Type.Number())
const Sync = Type.Object({ first: Figures, change: Type.Optional(Figures) })
const Change = Type.Object({ changeMicroseconds: Type.Number() })
export type Sync = Static<typeof Sync>
const Floor = Type.Object({ seconds: Type.Number(), changeMicroseconds: Type.Number() })
const Elements = Type.Composite([Floor, Type.Object({ systemMicroseconds: Type.Number() })])

/** Runs a program in a network namespace of its own. */
async function alone(...command: readonly string[]): Promise<string> {
  return await mustRun(['unshare', '--net', ...command])
}

/** One first sync, then so many changes. `file` gets its transactions in nft's syntax. */
async function sync({ services, reals }: Size, changes: number, ...file: readonly string[]): Promise<Sync> {
  const args = [services, reals, changes].map(String)
  return Value.Parse(Sync, JSON.parse(await alone(process.execPath, syncProgram, ...args, ...file)))
}

async function floorOf(floor: string, { services, reals }: Size): Promise<Static<typeof Floor>> {
  return Value.Parse(Floor, JSON.parse(await alone(floor, String(services), String(reals))))
}

/** The same elements through the addon and by the C program, medians of the rounds. */
export async function elementFigures(floor: string, sizes: readonly Size[]): Promise<unknown> {
  const figures = []
  for (const size of sizes) {
    const runs = []
    for (let round = 0; round < rounds; round++) {
      const args = [size.services, size.reals].map(String)
      const ours = Value.Parse(Elements, JSON.parse(await alone(process.execPath, elementsProgram, ...args)))
      const bare = await floorOf(floor, size)
      runs.push({
        ms: ours.seconds * 1000,
        floorMs: bare.seconds * 1000,
        ratio: ours.seconds / bare.seconds,
        changeUs: ours.changeMicroseconds,
        systemUs: ours.systemMicroseconds,
        floorChangeUs: bare.changeMicroseconds,
      })
    }
    figures.push({ size, ...medians(runs) })
  }
  return figures
}

/** The first sync by the mode's tables, by the C program and by `nft -f`, medians of the rounds. */
export async function firstSyncFigures(floor: string, size: Size): Promise<unknown> {
  const folder = mkdtempSync(join(tmpdir(), 'nft-'))
  const file = join(folder, 'ruleset.nft')
  try {
    await sync(size, 0, file)
    const runs = []
    for (let round = 0; round < rounds; round++) {
      const { first } = await sync(size, 0)
      const floorMs = (await floorOf(floor, size)).seconds * 1000
      const start = performance.now()
      await alone('nft', '-f', file)
      const nftMs = performance.now() - start
      const { ms = Number.NaN } = first
      runs.push({ ...first, floorMs, nftMs, byFloor: ms / floorMs, nftByOurs: nftMs / ms })
    }
    return { ...medians(runs), fileMiB: statSync(file).size / 1024 / 1024 }
  } finally {
    rmSync(folder, { recursive: true })
  }
}

interface ChangeFigures {
  readonly first: Readonly<Record<string, number>>
  /** With `callMicroseconds`, the system call of the C program for the same change of the same table. */
  readonly change: Readonly<Record<string, number>>
}

/** A first sync, so many changes by the mode's tables, then changes by the C program. */
async function syncAndChange(floor: string, size: Size, changes: number): Promise<ChangeFigures> {
  const script = '"$@" && "$FLOOR" change "$SERVICES" "$MAP"'
  const { set } = schemaOf('ipv4').services.endpoints.endpointAt(0)
  const variables = [`FLOOR=${floor}`, `SERVICES=${size.services}`, `MAP=${set}`]
  const args = [process.execPath, syncProgram, ...[size.services, size.reals, changes].map(String)]
  const output = await alone('env', ...variables, 'sh', '-c', script, 'sh', ...args)
  const [ours = '', bare = ''] = output.split('\n')
  const { first, change = {} } = Value.Parse(Sync, JSON.parse(ours))
  const { changeMicroseconds } = Value.Parse(Change, JSON.parse(bare))
  return { first, change: { ...change, callMicroseconds: changeMicroseconds } }
}

/** First sync and one change by the number of services, medians of the rounds. */
export async function curveFigures(
  floor: string,
  sizes: readonly Size[],
  changes: number,
): Promise<readonly (ChangeFigures & { readonly size: Size })[]> {
  const figures = []
  for (const size of sizes) {
    const runs: ChangeFigures[] = []
    for (let round = 0; round < rounds; round++) runs.push(await syncAndChange(floor, size, changes))
    const first = medians(runs.map((run) => run.first))
    figures.push({ size, first, change: medians(runs.map(({ change }) => change)) })
  }
  return figures
}

/** One first sync of a cluster far beyond others. */
export async function hugeSyncFigures(
  floor: string,
  size: Size,
): Promise<ChangeFigures & { readonly size: Size }> {
  return { size, ...(await syncAndChange(floor, size, 1000)) }
}
