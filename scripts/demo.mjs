// `npm run demo`: installs what is missing, builds, and shows the main job: here, or in a guest when this kernel has no IP_VS.
import { runGuest } from './guest.mjs'
import { setUp, setUpGuest } from './setup.mjs'
import { isMain, run, runMain, StepError } from './steps.mjs'
import { inNewNamespace } from './suites/node-tests.mjs'

/** Seconds; far above what it needs. */
const limitSeconds = 300
const demo = 'out/ts/test/traffic/demo.js'

async function main() {
  await setUp('demo')
  const status = (await hasIpvs()) ? await runHere() : await runInGuest()
  if (status !== 0) throw new StepError(`the demo ended with ${status}`)
}

/** Whether this kernel, in a new network namespace, has IP_VS and the dummy device. */
async function hasIpvs() {
  const probe = 'ipvsadm -Ln && ip link add viaduct0 type dummy'
  return (await run(['unshare', '--net', 'sh', '-c', probe])).status === 0
}

async function runHere() {
  const command = [...inNewNamespace, process.execPath, demo]
  return (await run(command, { onOutput: print, timeoutSeconds: limitSeconds })).status
}

async function runInGuest() {
  await setUpGuest()
  console.log(
    'this kernel has no IP_VS: the demo runs in an emulated machine, where everything is some 10 times slower\n',
  )
  const script = `exec node ${demo}\n`
  return (await runGuest({ name: 'demo', script, timeoutSeconds: limitSeconds, onOutput: print })).status
}

/** @param {string} text */
function print(text) {
  process.stdout.write(text)
}

if (isMain(import.meta.url)) await runMain(main)
