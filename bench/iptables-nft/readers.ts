// How long others take to read their rules of the shared tables, at rest and while the Services change.
import { writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Namespace } from '../../test/support/namespaces.js'
import { churn } from '../api/changes.js'
import { coldMs, onApiStage, type Run, type StartRun } from '../api/stage.js'
import type { Size } from '../stage/manifests.js'
import { spread, type Spread } from '../stage/figures.js'

const workloads = 160
const restMs = 5000
const quietReads = 10
const churnSeconds = 15
/** A reader starts over when a transaction falls into its work. After this time it counts as failed. */
const limitSeconds = 20

const readers = {
  'iptables-nft-save': ['iptables-nft-save'],
  'iptables-nft-save -t filter': ['iptables-nft-save', '-t', 'filter'],
  'nft list table ip filter': ['nft', 'list', 'table', 'ip', 'filter'],
} as const
type Reader = keyof typeof readers
const names: readonly Reader[] = [
  'iptables-nft-save',
  'iptables-nft-save -t filter',
  'nft list table ip filter',
]

type Times = Readonly<Record<Reader, { readonly ms: number[]; failed: number }>>

function noTimes(): Times {
  return {
    'iptables-nft-save': { ms: [], failed: 0 },
    'iptables-nft-save -t filter': { ms: [], failed: 0 },
    'nft list table ip filter': { ms: [], failed: 0 },
  }
}

/** About 2,000 rules as Calico has them on a node with 160 pods. */
function policyRules(): string {
  const chains: string[] = []
  const rules = ['-A FORWARD -m comment --comment "cali:wUHhoiAYhphO9Mso" -j cali-FORWARD']
  let serial = 0
  const add = (chain: string, rule: string): void => {
    const comment = `cali:${String(serial++).padStart(16, '0')}`
    rules.push(`-A ${chain} -m comment --comment "${comment}" ${rule}`)
  }
  chains.push('cali-FORWARD', 'cali-from-wl-dispatch', 'cali-to-wl-dispatch')
  add('cali-FORWARD', '-i cali+ -j cali-from-wl-dispatch')
  add('cali-FORWARD', '-o cali+ -j cali-to-wl-dispatch')
  for (let i = 0; i < workloads; i++) {
    const pod = `cali${String(i).padStart(11, '0')}`
    for (const [way, dispatch, side] of [
      ['fw', 'cali-from-wl-dispatch', '-i'],
      ['tw', 'cali-to-wl-dispatch', '-o'],
    ] as const) {
      const chain = `cali-${way}-${pod}`
      chains.push(chain)
      add(dispatch, `${side} ${pod} -g ${chain}`)
      add(chain, '-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT')
      add(chain, '-m conntrack --ctstate INVALID -j DROP')
      add(chain, '-j MARK --set-xmark 0x0/0x10000')
      add(chain, `-s 10.128.${i}.0/24 -j MARK --set-xmark 0x10000/0x10000`)
      add(chain, '-m mark --mark 0x10000/0x10000 -j RETURN')
      add(chain, '-j DROP')
    }
  }
  return ['*filter', ...chains.map((chain) => `:${chain} - [0:0]`), ...rules, 'COMMIT', ''].join('\n')
}

async function readOnce(place: Namespace, name: Reader, times: Times): Promise<void> {
  const start = performance.now()
  const { code } = await place.run('timeout', String(limitSeconds), ...readers[name])
  if (code === 0) times[name].ms.push(performance.now() - start)
  else times[name].failed += 1
}

interface ReaderFigures {
  readonly quiet: Spread
  readonly busy: Spread
  readonly busyReads: number
  readonly failed: number
}

/** Reads at rest, then while 20 endpoints change per second. */
export async function readerFigures(
  start: StartRun<Run>,
  { connect, size }: { readonly connect: string; readonly size: Size },
): Promise<Readonly<Record<string, ReaderFigures>>> {
  return await onApiStage({ connect, size, tickUs: 1000 }, start, async (stage) => {
    const { place } = stage
    const file = join(tmpdir(), 'policy.rules')
    writeFileSync(file, policyRules())
    await place.must('iptables-nft-restore', '--noflush', file)
    await coldMs(stage, size)
    await sleep(restMs)
    const [quiet, busy] = [noTimes(), noTimes()]
    for (let i = 0; i < quietReads; i++) for (const name of names) await readOnce(place, name, quiet)
    const over = new AbortController()
    const churned = churn(stage, churnSeconds).finally(() => over.abort())
    while (!over.signal.aborted) for (const name of names) await readOnce(place, name, busy)
    await churned
    return Object.fromEntries(
      names.map((name) => [
        name,
        {
          quiet: spread(quiet[name].ms),
          busy: spread(busy[name].ms),
          busyReads: busy[name].ms.length,
          failed: quiet[name].failed + busy[name].failed,
        },
      ]),
    )
  })
}
