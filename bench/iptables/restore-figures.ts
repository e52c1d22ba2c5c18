// Times of iptables-restore, which kube-proxy uses, with kube-proxy's rules for the same Services.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Namespace } from '../../test/support/namespaces.js'
import { realServer } from '../state.js'
import { median } from '../stage/figures.js'
import type { Size } from '../stage/manifests.js'
import { withPlace } from '../stage/place.js'
import { oneChainText, servicesText, skeletonText } from './restore.js'

const changes = 3
const changedService = 7

/** Milliseconds of iptables-restore for `text`, with kube-proxy's flags. */
async function restore(place: Namespace, text: string): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), 'viaduct-bench-'))
  const file = join(folder, 'rules')
  writeFileSync(file, text)
  const start = performance.now()
  await place.must('iptables-legacy-restore', '--noflush', '--counters', file)
  const ms = performance.now() - start
  rmSync(folder, { recursive: true })
  return ms
}

/** Programs all rules of kube-proxy. Returns the milliseconds of the largest part, the Services. */
export async function restoreServices(place: Namespace, size: Size): Promise<number> {
  await restore(place, skeletonText())
  return await restore(place, servicesText(size))
}

export interface RestoreFigures {
  readonly firstMs: number
  readonly oneChainMs: number
}

/** The figures, measured in their own namespace. */
export async function restoreFigures(size: Size): Promise<RestoreFigures> {
  const text = oneChainText(changedService, realServer(changedService * size.reals), size)
  return await withPlace(async (place) => {
    const firstMs = await restoreServices(place, size)
    const times: number[] = []
    for (let i = 0; i < changes; i++) times.push(await restore(place, text))
    return { firstMs, oneChainMs: median(times) }
  })
}
