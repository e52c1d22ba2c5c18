// Builds the addon with cmake-js and with node-gyp, checks the hardening of both binaries, and compares their exports.
import { existsSync, mkdirSync, rmSync, symlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { checkHardening } from './addon-hardening.mjs'
import { isMain, must, root, runMain, StepError } from './steps.mjs'

/** Prints the names of the exports, of the classes' methods, and the layouts. */
const describeAddon = `
const loaded = { exports: {} }
process.dlopen(loaded, process.argv[1], require('node:os').constants.dlopen.RTLD_NOW)
const describe = (value) => typeof value === 'function' ? Object.getOwnPropertyNames(value.prototype).sort() : value
const entries = Object.entries(loaded.exports).map(([name, value]) => [name, describe(value)])
console.log(JSON.stringify(Object.fromEntries(entries.sort()), undefined, 2))
`

async function buildByCmake() {
  await must([process.execPath, join(root, 'node_modules/cmake-js/bin/cmake-js'), 'compile'])
  return join(root, 'build/Release/viaduct.node')
}

/** node-gyp builds into ./build, which belongs to cmake-js. So it builds in a folder of links. */
async function buildByGyp() {
  const folder = join(root, 'build-gyp')
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder)
  for (const name of ['binding.gyp', 'native', 'node_modules', 'package.json'])
    symlinkSync(join(root, name), join(folder, name))
  const nodeGyp = join(root, 'node_modules/node-gyp/bin/node-gyp.js')
  await must([process.execPath, nodeGyp, 'rebuild', '--jobs', 'max', '-C', folder, ...headerArguments()], {
    // Only this build with g++ makes warnings errors, so that the addon builds with newer compilers, which warn more. g++ 12 reports a
    // wrong memcpy() in libstdc++ (GCC bug 105651).
    env: { npm_config_nodedir: undefined, CXXFLAGS: '-Werror -Wno-error=restrict', ...compiler() },
  })
  return join(folder, 'build/Release/viaduct.node')
}

/** The compiler command, with CMake's launcher if one is set. */
function compiler() {
  const { CMAKE_CXX_COMPILER_LAUNCHER: launcher } = process.env
  return launcher === undefined ? {} : { CXX: `${launcher} g++` }
}

/** node-gyp's argument for the headers of this Node. Without them node-gyp downloads headers. */
function headerArguments() {
  const prefix = dirname(dirname(process.execPath))
  return existsSync(join(prefix, 'include/node/node_api.h')) ? [`--nodedir=${prefix}`] : []
}

/** @param {string} path */
function describe(path) {
  return must([process.execPath, '-e', describeAddon, path])
}

async function main() {
  const builds = [await buildByCmake(), await buildByGyp()]
  for (const build of builds) await checkHardening(build)
  const [cmake, gyp] = await Promise.all(builds.map(describe))
  if (cmake === gyp) return
  throw new StepError(`the two builds export different things:\ncmake-js:\n${cmake}\nnode-gyp:\n${gyp}`)
}

if (isMain(import.meta.url)) await runMain(main)
