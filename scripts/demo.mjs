// `npm run demo`: installs missing packages, builds, and runs the agent in two parts: with manifests in ipvs mode, and with an API server
// in iptables mode, which ends with a tour of the commands. Each part runs on this machine's kernel, or in a guest if the kernel lacks a feature.
import { runGuest } from './guest.mjs'
import { setUp, setUpGuest } from './setup.mjs'
import { isMain, run, runMain, StepError } from './steps.mjs'
import { inNewNamespace } from './suites/node-tests.mjs'

/** Limit in seconds for each part, far above the usual time. */
const limitSeconds = 300

/** The parts. `probe`: a command that succeeds in a new network namespace if the kernel has the needed features. */
const parts = [
  {
    name: 'manifests',
    file: 'out/ts/test/traffic/demo-manifests.js',
    probe: 'ipvsadm -Ln && ip link add viaduct0 type dummy',
    lacking: 'IP_VS',
  },
  {
    name: 'api',
    file: 'out/ts/test/traffic/demo-api.js',
    probe: 'iptables-legacy -t nat -S && ip6tables-legacy -t nat -S',
    lacking: 'legacy tables of iptables',
  },
]

async function main() {
  await setUp('demo')
  for (const [index, part] of parts.entries()) {
    console.log(`\n===== Part ${index + 1} of ${parts.length}`)
    const isHere = (await run(['unshare', '--net', 'sh', '-c', part.probe])).status === 0
    const status = isHere ? await runHere(part) : await runInGuest(part)
    if (status !== 0) throw new StepError(`the demo ended with ${status}`)
  }
}

/** @param {typeof parts[number]} part */
async function runHere({ file }) {
  const command = [...inNewNamespace, process.execPath, file]
  return (await run(command, { onOutput: print, timeoutSeconds: limitSeconds })).status
}

/** @param {typeof parts[number]} part */
async function runInGuest({ name, file, lacking }) {
  await setUpGuest()
  console.log(`this kernel has no ${lacking}: this part runs in an emulated machine, some 10 times slower\n`)
  const script = `exec node ${file}\n`
  return (await runGuest({ name: `demo-${name}`, script, timeoutSeconds: limitSeconds, onOutput: print }))
    .status
}

/** @param {string} text */
function print(text) {
  process.stdout.write(text)
}

if (isMain(import.meta.url)) await runMain(main)
