// Helm and kustomize for the tests of deploy/: built once from their Go modules, which Go's checksum database verifies, and kept in the
// user's cache folder.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { cacheFolder } from '../guest/kernel.mjs'
import { must, run, StepError } from '../steps.mjs'

const modules = [
  { name: 'helm', path: 'helm.sh/helm/v3/cmd/helm', version: 'v3.19.0' },
  { name: 'kustomize', path: 'sigs.k8s.io/kustomize/kustomize/v5', version: 'v5.7.1' },
]

/** Builds missing tools. Takes some minutes. @returns {Promise<Record<string, string>>} their paths by name */
export async function prepareTools() {
  const paths = {}
  for (const { name, path, version } of modules) {
    const folder = join(cacheFolder(), 'tools', `${name}-${version}`)
    paths[name] = join(folder, name)
    if (existsSync(paths[name])) continue
    if ((await run(['go', 'version'])).status !== 0)
      throw new StepError(`Go 1.24 or later is needed to build ${name}, and there is no go in the PATH`)
    const env = { GOBIN: folder, CGO_ENABLED: '0', GOFLAGS: '-trimpath' }
    await must(['nice', '-n', '5', 'go', 'install', '-p', '1', `${path}@${version}`], { env })
  }
  return paths
}
