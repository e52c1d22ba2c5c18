// The packages suite: makes the npm and the Debian package, and tests them and the Helm chart.
import { packDeb } from '../packages/deb.mjs'
import { packNpm } from '../packages/npm.mjs'
import { prepareTools } from '../packages/tools.mjs'
import { compiledTests, runNodeTests } from './node-tests.mjs'

/** Limit in seconds, far above the usual time. */
const limitSeconds = 600

/**
 * @param {string} log
 * @returns {Promise<import('./node-tests.mjs').SuiteResult>}
 */
export async function packagesSuite(log) {
  const { helm, kustomize } = await prepareTools()
  const env = {
    VIADUCT_HELM: helm,
    VIADUCT_KUSTOMIZE: kustomize,
    VIADUCT_NPM_PACKAGE: await packNpm(),
    VIADUCT_DEB_PACKAGE: await packDeb(),
  }
  return runNodeTests(compiledTests('test/packages'), { log, env, timeoutSeconds: limitSeconds })
}
