// Records the kernel objects that a commit's agent writes, for test/kernel/stored-rules.test.ts:
//   node scripts/upgrade/record-rules.mjs COMMIT [DIST]
// writes test/support/stored-rules/COMMIT-MODE.json for each mode of x_tables and nf_tables. DIST: the commit's dist/, if it is built already.
// The legacy tables are kept as iptables-legacy-save prints them. Those of nf_tables are kept as the agent's own messages, which strace
// shows: nft cannot read all that it lists. As root; needs strace.
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { must, read, root, runMain, StepError } from '../steps.mjs'
import { buildCommit, commitNamed } from './build.mjs'

const modes = {
  'iptables-legacy': ['--proxy-mode=iptables', '--iptables-flavour=legacy'],
  'iptables-nft': ['--proxy-mode=iptables', '--iptables-flavour=nft'],
  nftables: ['--proxy-mode=nftables'],
}

const folder = join(root, 'test/support/stored-rules')

/** Starts the agent under strace, waits for the first sync of both families, and prints the legacy tables. */
const script = `set -eu
ip link set lo up
log=$1; trace=$2; shift 2
strace --follow-forks --output-separately --absolute-timestamps=format:unix,precision:us --quiet=all --trace=sendmsg \
  --write=all --output="$trace" "$@" >"$log" 2>&1 &
for attempt in $(seq 300); do
  [ "$(grep --count 'Sync done' "$log")" -ge 2 ] && break
  read -r -t 0.1 rest <>"$log.wait" || true
done
kill "$(pgrep --parent $!)"
wait
iptables-legacy-save; echo '%'; ip6tables-legacy-save`

/**
 * The batches of nf_tables, in the order of their times, as gzip in Base64.
 * @param {readonly string[]} traces one per thread: each call has its time, and a dump of its bytes below
 */
function batchesIn(traces) {
  const calls = traces
    .flatMap((trace) => trace.split(/^(?=\d+\.\d+ )/m))
    .filter((call) => /^\S+ sendmsg\(.*NFNL_MSG_BATCH_BEGIN/.test(call))
    .toSorted((one, other) => Number.parseFloat(one) - Number.parseFloat(other))
  // Sixteen bytes take 49 columns. Their text follows, and may look like bytes.
  const dumped = calls.flatMap((call) => [...call.matchAll(/^ \| [0-9a-f]{5,} {2}([0-9a-f ]{49})/gm)])
  const bytes = Buffer.from(dumped.map(([, digits = '']) => digits.replaceAll(' ', '')).join(''), 'hex')
  return gzipSync(bytes, { level: 9 }).toString('base64')
}

/** The files that strace wrote, one per thread. @param {string} trace */
function tracesOf(trace) {
  const names = readdirSync(dirname(trace)).filter((name) => name.startsWith(`${basename(trace)}.`))
  return names.map((name) => readFileSync(join(dirname(trace), name), 'latin1'))
}

/** @param {string} commit @param {string} dist @param {string} name @param {string} work */
async function record(commit, dist, name, work) {
  const [log, trace] = [join(work, `${name}.log`), join(work, `${name}.trace`)]
  await must(['sh', '-c', ': >"$1"; mkfifo "$1.wait"', 'sh', log])
  const flags = [...modes[name], `--manifests=${join(folder, 'objects')}`, '--hostname-override=node-a']
  const quiet = ['--control-socket=', '--healthz-bind-address=', '--metrics-bind-address=', '-v=2']
  const agent = [process.execPath, join(dist, 'agent.js'), ...flags, ...quiet]
  const inside = ['unshare', '--net', '--mount', 'bash', '-c', script, 'bash', log, trace, ...agent]
  const saved = await read(inside, { env: { XTABLES_LOCKFILE: join(work, 'lock') }, timeoutSeconds: 60 })
  const [IPv4 = '', IPv6 = ''] = saved
    .split('%\n')
    .map((text) => `${text.replaceAll(/^#.*(?:\n|$)/gm, '').trim()}\n`)
  const rules = name === 'iptables-legacy' ? { IPv4, IPv6 } : { batches: batchesIn(tracesOf(trace)) }
  const date = await read(['git', 'show', '-s', '--format=%cs', commit])
  const file = join(folder, `${commit.slice(0, 8)}-${name}.json`)
  writeFileSync(file, `${JSON.stringify({ commit, date, flags: modes[name], rules }, undefined, 2)}\n`)
  console.log(file)
}

async function main() {
  const [name, built] = process.argv.slice(2)
  if (name === undefined) throw new StepError('usage: record-rules.mjs COMMIT [DIST]')
  const work = mkdtempSync(join(tmpdir(), 'viaduct-rules-'))
  try {
    const commit = await commitNamed(name)
    const dist = built ?? (await buildCommit(commit, join(work, 'tree')))
    mkdirSync(folder, { recursive: true })
    for (const mode of Object.keys(modes)) await record(commit, dist, mode, work)
  } finally {
    rmSync(work, { recursive: true })
  }
}

await runMain(main)
