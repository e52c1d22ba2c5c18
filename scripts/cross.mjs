// Compiles the addon for another processor: out/cross/ARCH/viaduct.node. With --test also builds the C++ tests for it, and runs them on an
// emulated processor (qemu-user).
// Usage: node scripts/cross.mjs [--test] ARCH...
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { architectures, crossFolder, crossOptions, emulated } from './cross/architectures.mjs'
import { isMain, must, root, runMain, StepError } from './steps.mjs'

/**
 * Compiles the shipped addon.
 * @param {string} name of the architecture
 */
async function buildAddon(name) {
  await compile(name, { source: root, folder: crossFolder(name), targets: ['viaduct'] })
}

/**
 * The tests of a wait for the lock of x_tables. A timer's signal ends the wait: SIGRTMAX - 1, which qemu-user keeps from programs.
 */
const needRealTimeSignals = [
  'XtablesLockTest.GetsTheLockBesideProgramsThatRetakeIt',
  'XtablesLockTest.AnEndedWaitDoesNotTakeTheLockLater',
  'XtablesLockTest.HurryEndsAWaitInThreadsThatBlockSignals',
  'XtablesTableTest.LockOfAnotherProgram',
  'XtablesTableTest.NoWaitForTheLockAfterHurry',
]

/** The tests in which the relay looks for the sockets of other programs by sock_diag. */
const needDiagnosis = [
  '*RelayListenersTest.TheWildcardStandsBesideASingleAddress*',
  '*RelayListenersTest.AWildcardBesideAnOwnSocketFindsAnotherProgramThatShares*',
  'RelayUdpListenersTest.AWildcardThatKeepsLoopbackAloneDoesNotTakeThePortBack',
]

/** The tests of policy routing rules: qemu-user does not pass them on. */
const needRules = ['*RulesOfANewNamespace*']

/**
 * Runs the C++ tests. Of those on the kernel only the routes: qemu-user has no sockets of netfilter and of diagnosis, and no options of
 * x_tables.
 * @param {string} name of the architecture
 */
async function testNative(name) {
  const folder = join(crossFolder(name), 'test')
  await compile(name, {
    source: join(root, 'native/test'),
    folder,
    targets: ['native_test', 'route_kernel_test'],
  })
  const emulator = emulated(name)
  for (const program of [
    [...emulator, join(folder, 'native_test'), without([...needRealTimeSignals, ...needDiagnosis])],
    ['unshare', '-n', ...emulator, join(folder, 'route_kernel_test'), without(needRules)],
  ])
    process.stdout.write(await must([...program, '--gtest_brief=1']))
}

/** @param {readonly string[]} tests @returns {string} the argument of a program of GoogleTest that leaves them out */
function without(tests) {
  return `--gtest_filter=-${tests.join(':')}`
}

/**
 * @param {string} name of the architecture
 * @param {{ source: string, folder: string, targets: readonly string[] }} what `source` has a CMakeLists.txt
 */
async function compile(name, { source, folder, targets }) {
  mkdirSync(folder, { recursive: true })
  await must(['cmake', '-S', source, '-B', folder, '-G', 'Ninja', ...crossOptions(name)])
  await must(['ninja', '-C', folder, ...targets])
}

async function main() {
  const { values, positionals } = parseArgs({
    options: { test: { type: 'boolean', default: false } },
    allowPositionals: true,
  })
  if (positionals.length === 0)
    throw new StepError(
      `usage: node scripts/cross.mjs [--test] ARCH..., of ${[...architectures.keys()].join(', ')}`,
    )
  for (const name of positionals) {
    await buildAddon(name)
    if (values.test) await testNative(name)
  }
}

if (isMain(import.meta.url)) await runMain(main)
