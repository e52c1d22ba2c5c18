// Makes the shipped files in dist/: agent.js, which launches bundle.js or command.js, each with its bytecode; kubeconfig.js and proxy-agent.js, which are
// loaded if a kubeconfig or a proxy is configured; tar-file.js, for `viaduct bundle`; package.json, which declares them as CommonJS; viaduct.node.
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { basename, dirname, join } from 'node:path'
import { setFlagsFromString } from 'node:v8'
import { Script } from 'node:vm'
import { commitOf } from './commit.mjs'
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
 * Bundles and compiles a program into a folder, with its launcher agent.js and the addon. The launcher takes a word as the name of a command of
 * viaduct: other programs get `--` as their first argument.
 * @param {string} entryPoint @param {string} folder
 */
export async function bundleProgram(entryPoint, folder) {
  const addon = ['build/Release/viaduct.node', 'build/viaduct.node']
    .map((path) => join(root, path))
    .find(existsSync)
  if (addon === undefined) throw new StepError('no addon to ship: run `npm run build:native` first')
  await checkAddon(addon)
  mkdirSync(folder, { recursive: true })
  // The build that --version, status and the metrics name (src/version.ts).
  const define = { viaductCommit: JSON.stringify(await commitOf()) }
  await bundleTo(join(folder, 'agent.js'), { entryPoints: ['src/launch.cts'] })
  await bundleWithBytecode(folder, 'bundle', {
    entryPoints: [entryPoint],
    define: { ...define, 'import.meta.url': 'viaductModuleUrl' },
    plugins: [withoutUnused, withRareBeside],
  })
  await bundleWithBytecode(folder, 'command', { entryPoints: ['src/command.ts'], define })
  await bundleTo(join(folder, 'kubeconfig.js'), {
    entryPoints: ['src/api/login/kubeconfig.ts'],
    plugins: [withoutUnusedOfClientNode, withRareBeside],
  })
  await bundleTo(join(folder, 'proxy-agent.js'), {
    entryPoints: ['src/api/proxy/proxy-agent.ts'],
    plugins: [withoutDebug],
  })
  await bundleTo(join(folder, 'tar-file.js'), { entryPoints: ['src/bundle/tar-file.ts'] })
  replaceFile(join(folder, 'package.json'), '{ "type": "commonjs" }\n')
  replaceFile(join(folder, 'viaduct.node'), readFileSync(addon), 0o755)
}

/**
 * Makes NAME.js, a script that is one function, and NAME.bytecode, which the launcher gives to V8 with it.
 * @param {string} folder @param {string} name @param {import('esbuild').BuildOptions} options
 */
async function bundleWithBytecode(folder, name, options) {
  const file = join(folder, `${name}.js`)
  await bundleTo(file, {
    banner: { js: banner },
    footer: { js: footer },
    supported: { 'dynamic-import': false },
    ...options,
  })
  replaceFile(join(folder, `${name}.bytecode`), await bytecodeOf(readFileSync(file)))
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
 * Replaces modules that prom-client loads at its start and the agent never calls. They would load Node's HTTP, TLS and cluster modules.
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
 * The code for kubeconfigs, proxies and archives, with its libraries, is in separate scripts, because most starts need none
 * (docs/adr/0016).
 * @type {import('esbuild').Plugin}
 */
const withRareBeside = {
  name: 'with-rare-beside',
  setup(build) {
    build.onResolve({ filter: /[\\/](?:kubeconfig|proxy-agent|tar-file)\.js$/ }, ({ kind, path }) =>
      kind === 'dynamic-import' ? { path: `./${basename(path)}`, external: true } : undefined,
    )
  },
}

/**
 * Replaces the package `debug`. With the variable DEBUG, the proxy libraries would print URLs with credentials.
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
 * Replaces modules that the library's KubeConfig imports and the agent never calls: the classes of the API, fetch, its proxy agents, and
 * logins that src/api/login/kubeconfig-file.ts refuses.
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
  const { outputFiles } = await build({
    write: false,
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
  for (const { path, contents } of outputFiles) replaceFile(path, contents)
}

/**
 * V8 bytecode of all functions of the source. Only the same Node with the same flags accepts it.
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

/**
 * Writes under another name and renames. A running agent has the addon mapped and would crash if its bytes changed, and a start reads
 * whole scripts.
 * @param {string} target @param {string | Uint8Array} content @param {number} [mode]
 */
function replaceFile(target, content, mode = 0o644) {
  const fresh = `${target}.${process.pid}`
  mkdirSync(dirname(target), { recursive: true })
  try {
    writeFileSync(fresh, content, { mode })
    renameSync(fresh, target)
  } finally {
    rmSync(fresh, { force: true })
  }
}

if (isMain(import.meta.url)) await runMain(bundle)
