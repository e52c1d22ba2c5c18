// Makes the shipped artefact in dist/: agent.js, which launches bundle.js with bundle.bytecode; kubeconfig.js and proxy-agent.js,
// which are loaded where a kubeconfig or a proxy is configured; package.json, which says that they are scripts; viaduct.node.
import { copyFileSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { basename, join } from 'node:path'
import { setFlagsFromString } from 'node:v8'
import { Script } from 'node:vm'
import { isMain, root, runMain, StepError } from './steps.mjs'

// The bundle is a script that is one function, which the launcher calls.
const banner = `(function (require, __filename) { 'use strict'
const viaductModuleUrl = require('node:url').pathToFileURL(__filename).href`
const footer = '})'

/** Makes dist/. Throws StepError when the addon has not been built, or from another source. */
export async function bundle() {
  await bundleProgram('src/agent.ts', join(root, 'dist'))
}

/**
 * Bundles a program, compiles it, and puts its launcher, agent.js, and the addon beside it.
 * @param {string} entryPoint @param {string} folder
 */
export async function bundleProgram(entryPoint, folder) {
  const addon = ['build/Release/viaduct.node', 'build/viaduct.node']
    .map((path) => join(root, path))
    .find(existsSync)
  if (addon === undefined) throw new StepError('no addon to ship: run `npm run build:native` first')
  await checkAddon(addon)
  mkdirSync(folder, { recursive: true })
  await bundleTo(join(folder, 'agent.js'), { entryPoints: ['src/launch.cts'] })
  await bundleTo(join(folder, 'bundle.js'), {
    entryPoints: [entryPoint],
    banner: { js: banner },
    footer: { js: footer },
    define: { 'import.meta.url': 'viaductModuleUrl' },
    supported: { 'dynamic-import': false },
    plugins: [withoutUnused, withRareBeside],
  })
  await bundleTo(join(folder, 'kubeconfig.js'), {
    entryPoints: ['src/api/login/kubeconfig.ts'],
    plugins: [withoutUnusedOfClientNode, withRareBeside],
  })
  await bundleTo(join(folder, 'proxy-agent.js'), {
    entryPoints: ['src/api/proxy/proxy-agent.ts'],
    plugins: [withoutDebug],
  })
  writeFileSync(join(folder, 'bundle.bytecode'), await bytecodeOf(readFileSync(join(folder, 'bundle.js'))))
  writeFileSync(join(folder, 'package.json'), '{ "type": "commonjs" }\n')
  replaceFile(addon, join(folder, 'viaduct.node'))
}

/**
 * Loads the addon as the agent does, which compares its records with the source. Throws StepError when they differ.
 * @param {string} addon
 */
export async function checkAddon(addon) {
  const loader = join(root, 'out', 'loader.cjs')
  await bundleTo(loader, { entryPoints: ['src/kernel/loader.ts'] })
  const { loadAddon } = createRequire(import.meta.url)(loader)
  try {
    loadAddon({ addonPath: addon, moduleUrl: import.meta.url })
  } catch (error) {
    throw new StepError(
      `${addon} does not fit the source: run \`npm run build:native\` first (${error.message})`,
    )
  }
}

/**
 * Stands in for modules that prom-client loads at once and the agent never calls. They would load HTTP, TLS and the cluster module of Node.
 * @type {import('esbuild').Plugin}
 */
const withoutUnused = {
  name: 'without-unused',
  setup(build) {
    const filter = /[\\/]prom-client[\\/]lib[\\/](?:pushgateway|cluster|defaultMetrics)\.js$/
    build.onLoad({ filter }, () => ({ contents: '' }))
  },
}

/**
 * Most starts have no kubeconfig and no proxy: what these take, with its libraries, is a script of its own (docs/adr/0016).
 * @type {import('esbuild').Plugin}
 */
const withRareBeside = {
  name: 'with-rare-beside',
  setup(build) {
    build.onResolve({ filter: /[\\/](?:kubeconfig|proxy-agent)\.js$/ }, ({ kind, path }) =>
      kind === 'dynamic-import' ? { path: `./${basename(path)}`, external: true } : undefined,
    )
  },
}

/**
 * The package `debug`: with the variable DEBUG, the proxy libraries would print URLs with their logins.
 * @type {import('esbuild').Plugin}
 */
const withoutDebug = {
  name: 'without-debug',
  setup(build) {
    const contents = 'module.exports = () => () => undefined'
    build.onLoad({ filter: /[\\/]node_modules[\\/]debug[\\/]/ }, () => ({ contents }))
  },
}

/**
 * Stands in for modules that the library's KubeConfig names and the agent never calls: the classes of the API, fetch, its agents for
 * proxies, and logins that src/api/login/kubeconfig-file.ts refuses.
 * @type {import('esbuild').Plugin}
 */
const withoutUnusedOfClientNode = {
  name: 'without-unused-of-client-node',
  setup(build) {
    const unused =
      /[\\/](?:client-node[\\/]dist[\\/]gen|node-fetch[\\/]lib|hpagent|socks-proxy-agent[\\/]dist)[\\/]index\.m?js$/
    build.onLoad({ filter: unused }, () => ({ contents: '' }))
    for (const [file, name] of [
      ['azure_auth', 'AzureAuth'],
      ['gcp_auth', 'GoogleCloudPlatformAuth'],
      ['oidc_auth', 'OpenIDConnectAuth'],
    ]) {
      const contents = `export class ${name} { isAuthProvider() { return false } }`
      build.onLoad({ filter: new RegExp(`client-node.dist.${file}\\.js$`) }, () => ({ contents }))
    }
  },
}

/** @param {string} outfile @param {import('esbuild').BuildOptions} options */
async function bundleTo(outfile, options) {
  const { build } = await import('esbuild')
  await build({
    absWorkingDir: root,
    outfile,
    bundle: true,
    format: 'cjs',
    platform: 'node',
    target: 'node20',
    charset: 'ascii',
    external: ['*.node'],
    logLevel: 'silent',
    ...options,
  }).catch((error) => {
    throw new StepError(error.message)
  })
}

/**
 * All functions of the source as V8's bytecode, which the same Node with the same flags takes.
 * @param {Buffer} source
 */
async function bytecodeOf(source) {
  const sealer = join(root, 'out', 'bytecode.cjs')
  await bundleTo(sealer, { entryPoints: ['src/bytecode.cts'] })
  setFlagsFromString('--no-lazy')
  const script = new Script(source.toString('latin1'))
  setFlagsFromString('--lazy')
  const { seal } = createRequire(import.meta.url)(sealer)
  return seal(source, script.createCachedData())
}

/** A copy under another name first: an agent that runs has the old file mapped, and dies when its bytes change. */
function replaceFile(source, target) {
  const fresh = `${target}.${process.pid}`
  try {
    copyFileSync(source, fresh)
    renameSync(fresh, target)
  } finally {
    rmSync(fresh, { force: true })
  }
}

if (isMain(import.meta.url)) await runMain(bundle)
