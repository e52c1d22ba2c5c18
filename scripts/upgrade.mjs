// The test of two versions: npm run upgrade [-- [--from COMMIT] MODE...]
// Builds the last release, then replaces it by this tree's agent and back in each mode, under load, in network namespaces of its own, on
// this machine's kernel. The modes ipvs-legacy and ipvs-nft run in the guest, and only if they are named. Prints a table and writes
// out/upgrade/figures.json. Ends with 1 if a figure of the table breaks a promise of docs/releasing.md. Needs root.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { runGuest } from './guest.mjs'
import { setUp } from './setup.mjs'
import { isMain, root, run, runMain, step, StepError } from './steps.mjs'
import { buildCommit, commitNamed } from './upgrade/build.mjs'
import { brokenPromises, table } from './upgrade/table.mjs'

const hostModes = ['iptables-legacy', 'iptables-nft', 'nftables', 'userspace']
/** They run in the guest, and only by name: its emulated processor takes some 15 times as long. */
const guestModes = ['ipvs-legacy', 'ipvs-nft']
const modes = [...hostModes, ...guestModes]
const limitSeconds = 300
/** The emulated processor of the guest is slower. */
const guestLimitSeconds = 1800

/** The last release: the newest tag v*, or the commit in the field `released` of package.json, while no tag exists. */
async function released() {
  const { status, stdout } = await run(['git', 'describe', '--tags', '--abbrev=0', '--match', 'v*'])
  if (status === 0) return stdout.trim()
  return JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).released
}

/** @param {readonly string[]} words */
async function parse(words) {
  const [first, from, ...rest] = words
  const [name, wanted] = first === '--from' ? [from, rest] : [await released(), words]
  if (name === undefined) throw new StepError('--from needs a COMMIT')
  for (const mode of wanted)
    if (!modes.includes(mode)) throw new StepError(`no mode ${mode}, only ${modes.join(', ')}`)
  return { commit: await commitNamed(name), wanted: wanted.length === 0 ? hostModes : wanted }
}

/**
 * In the guest, whose kernel has IP_VS.
 * @param {string} mode @param {string} folder holds the old one's build in old/dist, and receives the figures
 * @returns {Promise<any>} the figures
 */
async function measureInGuest(mode, folder) {
  const lines = [
    'cp -r "$VIADUCT_WORK/old/dist" /tmp/old && modprobe ip_vs || exit',
    `exec node out/ts/bench/upgrade/run.js ${mode} /tmp/old/agent.js dist/agent.js > "$VIADUCT_WORK/figures"`,
  ]
  const { status, output } = await runGuest({
    name: mode,
    script: `${lines.join('\n')}\n`,
    timeoutSeconds: guestLimitSeconds,
    work: folder,
  })
  if (status !== 0) throw new StepError(`${mode} ended with ${status}:\n${output}`)
  return { mode, ...JSON.parse(readFileSync(join(folder, 'figures'), 'utf8')) }
}

/**
 * @param {string} mode @param {string} old @param {string} folder for the sockets and the lock of the tables
 * @returns {Promise<any>} the figures
 */
async function measure(mode, old, folder) {
  if (guestModes.includes(mode)) return await measureInGuest(mode, folder)
  const files = [join(old, 'agent.js'), join(root, 'dist/agent.js')]
  const command = [process.execPath, join(root, 'out/ts/bench/upgrade/run.js'), mode, ...files]
  const env = { TMPDIR: folder, XTABLES_LOCKFILE: join(folder, 'xtables.lock') }
  const { status, stdout, output } = await run(command, { env, timeoutSeconds: limitSeconds })
  if (status !== 0) throw new StepError(`${mode} ended with ${status}:\n${output}`)
  return { mode, ...JSON.parse(stdout) }
}

async function main() {
  const { commit, wanted } = await parse(process.argv.slice(2))
  await setUp('demo')
  const folder = mkdtempSync(join(tmpdir(), 'viaduct-upgrade-'))
  try {
    const old = await step(`${commit.slice(0, 12)}: build`, () => buildCommit(commit, join(folder, 'old')))
    /** @type {any[]} */
    const results = []
    for (const mode of wanted)
      results.push(await step(`${mode}: there and back, twice`, () => measure(mode, old, folder)))
    const out = join(root, 'out/upgrade')
    mkdirSync(out, { recursive: true })
    writeFileSync(join(out, 'figures.json'), `${JSON.stringify({ commit, results }, undefined, 2)}\n`)
    console.log(`\n${table(results)}`)
    const broken = results.flatMap(brokenPromises)
    if (broken.length > 0) throw new StepError(`a promise is broken:\n${broken.join('\n')}`)
  } finally {
    rmSync(folder, { recursive: true })
  }
}

if (isMain(import.meta.url)) await runMain(main)
