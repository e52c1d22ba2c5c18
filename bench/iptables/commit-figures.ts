// Compares the time from desired objects to the kernel with that of the tool that kube-proxy uses. Both run in turns, so that ratios hold
// on a busy machine.
import { fileURLToPath } from 'node:url'
import { Type, type Static } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { median, medians } from '../stage/figures.js'
import type { Size } from '../stage/manifests.js'
import { withPlace } from '../stage/place.js'
import { restoreFigures, type RestoreFigures } from './restore-figures.js'

const rounds = 3
const commit = fileURLToPath(new URL('./commit.js', import.meta.url))
const Phases = Type.Record(Type.String(), Type.Number())
const Commit = Type.Object({
  first: Phases,
  change: Phases,
  resize: Phases,
  compareMs: Type.Number(),
  compareGap: Type.Object({ ms: Type.Number(), wallMs: Type.Number() }),
  checkUs: Type.Number(),
  entries: Type.Number(),
  bytes: Type.Number(),
})
type Commit = Static<typeof Commit>

/** One round in its own process and namespace. */
async function commitOnce({ services, reals }: Size): Promise<Commit> {
  const line = await withPlace(
    async (place) => await place.must(process.execPath, commit, String(services), String(reals)),
  )
  return Value.Parse(Commit, JSON.parse(line))
}

/** Medians of the rounds. */
export async function commitFigures(size: Size): Promise<Record<string, unknown>> {
  const ours: Commit[] = []
  const tools: RestoreFigures[] = []
  for (let round = 0; round < rounds; round++) {
    ours.push(await commitOnce(size))
    tools.push(await restoreFigures(size))
  }
  const [firstRound] = ours
  return {
    first: medians(ours.map(({ first }) => first)),
    change: medians(ours.map(({ change }) => change)),
    resize: medians(ours.map(({ resize }) => resize)),
    checkUs: median(ours.map(({ checkUs }) => checkUs)),
    compareMs: median(ours.map(({ compareMs }) => compareMs)),
    compareGap: {
      ms: Math.max(...ours.map(({ compareGap }) => compareGap.ms)),
      wallMs: Math.max(...ours.map(({ compareGap }) => compareGap.wallMs)),
    },
    entries: firstRound?.entries,
    bytes: firstRound?.bytes,
    tool: {
      firstMs: median(tools.map(({ firstMs }) => firstMs)),
      oneChainMs: median(tools.map(({ oneChainMs }) => oneChainMs)),
    },
  }
}
