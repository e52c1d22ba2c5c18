// The cross suite: compiles the addon for arm64, and runs the C++ tests and the agent on an emulated processor. It compiles for no other
// processor, which would take minutes: `node scripts/cross.mjs ppc64le s390x` does.
import { cpSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { crossFolder, emulated } from '../cross/architectures.mjs'
import { prepareNode } from '../cross/node.mjs'
import { must, root } from '../steps.mjs'
import { compiledTests, runNodeTests } from './node-tests.mjs'

/** Limit in seconds, far above the usual time. */
const limitSeconds = 900

const tested = 'arm64'

/**
 * @param {string} log
 * @returns {Promise<import('./node-tests.mjs').SuiteResult>}
 */
export async function crossSuite(log) {
  const options = { log, timeoutSeconds: limitSeconds }
  await must([process.execPath, 'scripts/cross.mjs', '--test', tested], options)
  const folder = join(crossFolder(tested), 'dist')
  mkdirSync(folder, { recursive: true })
  cpSync(join(root, 'dist'), folder, { recursive: true })
  cpSync(join(crossFolder(tested), 'viaduct.node'), join(folder, 'viaduct.node'))
  const command = [...emulated(tested), await prepareNode(), join(folder, 'agent.js')]
  const env = { VIADUCT_CROSS_AGENT: JSON.stringify(command) }
  return runNodeTests(compiledTests('test/cross'), { ...options, env })
}
