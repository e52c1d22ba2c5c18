// The cross suite: compiles the addon for other processors, and runs the C++ tests and the agent on an emulated arm64.
import { cpSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { architectures, crossFolder, emulated } from '../cross/architectures.mjs'
import { prepareNode } from '../cross/node.mjs'
import { must, root } from '../steps.mjs'
import { compiledTests, runNodeTests } from './node-tests.mjs'

/** Limit in seconds, far above the usual time. */
const limitSeconds = 900

/** The processor whose tests run. The addon compiles for the others. */
const tested = 'arm64'

/**
 * @param {string} log
 * @returns {Promise<import('./node-tests.mjs').SuiteResult>}
 */
export async function crossSuite(log) {
  const options = { log, timeoutSeconds: limitSeconds }
  const compiled = [...architectures.keys()].filter((name) => name !== tested)
  await must([process.execPath, 'scripts/cross.mjs', ...compiled], options)
  await must([process.execPath, 'scripts/cross.mjs', '--test', tested], options)
  const folder = join(crossFolder(tested), 'dist')
  mkdirSync(folder, { recursive: true })
  cpSync(join(root, 'dist'), folder, { recursive: true })
  cpSync(join(crossFolder(tested), 'viaduct.node'), join(folder, 'viaduct.node'))
  const command = [...emulated(tested), await prepareNode(), join(folder, 'agent.js')]
  const env = { VIADUCT_CROSS_AGENT: JSON.stringify(command) }
  return runNodeTests(compiledTests('test/cross'), { ...options, env })
}
