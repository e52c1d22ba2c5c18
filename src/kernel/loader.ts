// Finds and loads the addon.
import { readFileSync, statSync } from 'node:fs'
import { constants } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { dlopen } from 'node:process'
import { fileURLToPath } from 'node:url'
import { ConfigError } from '../errors.js'
import { addonFile, type Addon } from './addon.js'
import { checkLayouts } from './records.js'

export interface LoaderOptions {
  /** VIADUCT_ADDON: the only candidate when set; relative to the working directory. */
  readonly addonPath?: string | undefined
  /** Where this code runs from: the bundle in dist/, or a compiled file below out/ts. */
  readonly moduleUrl: string
}

const advice = 'build it with `npm run build:native`, or name the file in VIADUCT_ADDON'

/** The paths that are tried, in order: beside the code, then the build's output in our package. */
export function addonCandidates({ addonPath, moduleUrl }: LoaderOptions): readonly string[] {
  if (addonPath !== undefined && addonPath !== '') return [resolve(addonPath)]
  const start = dirname(fileURLToPath(moduleUrl))
  const root = packageFolder(start)
  const beside = join(start, addonFile)
  if (root === undefined) return [beside]
  // cmake-js and node-gyp write to Release, plain cmake does not.
  return [beside, join(root, 'build', 'Release', addonFile), join(root, 'build', addonFile)]
}

/** The folder above that holds our package.json: root must not load what lies in a stranger's. undefined: none. */
function packageFolder(start: string): string | undefined {
  for (let folder = start; ; folder = dirname(folder)) {
    if (isOurPackage(join(folder, 'package.json'))) return folder
    if (folder === dirname(folder)) return undefined
  }
}

function isOurPackage(path: string): boolean {
  try {
    const content: unknown = JSON.parse(readFileSync(path, 'utf8'))
    return typeof content === 'object' && content !== null && 'name' in content && content.name === 'viaduct'
  } catch {
    return false // absent, or somebody else's
  }
}

/** Throws ConfigError with the paths that were tried or the file's error, and BugError when the addon is of another build. */
export function loadAddon(options: LoaderOptions): Addon {
  const candidates = addonCandidates(options)
  const path = candidates.find((candidate) => !isAbsent(candidate))
  if (path === undefined)
    throw new ConfigError('', `there is no native addon (${advice}); tried\n  ${candidates.join('\n  ')}`)
  const loaded: { exports: Partial<Addon> } = { exports: {} }
  try {
    // RTLD_NOW: a missing symbol fails here and not in traffic.
    dlopen(loaded, path, constants.dlopen.RTLD_NOW)
  } catch (error) {
    // Another candidate, of another build perhaps, must not hide that this one is broken.
    const words = error instanceof Error ? (error.message.split('\n')[0] ?? '') : String(error)
    throw new ConfigError('', `the native addon could not be loaded (${advice})\n  ${path}: ${words}`)
  }
  return checkAddon(loaded.exports)
}

function isAbsent(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false }) === undefined
  } catch {
    return false // dlopen() will say why it cannot be read
  }
}

/** All of them: the compiler knows when one is missing. */
const exportNames = {
  IpvsSocket: true,
  RouteSocket: true,
  RouteEvents: true,
  ConntrackSocket: true,
  IpsetSocket: true,
  NftSocket: true,
  NftTables: true,
  NftEvents: true,
  KernelLook: true,
  LookWatch: true,
  XtablesTable: true,
  notifyServiceManager: true,
  layout: true,
  nftGrammar: true,
} as const satisfies Record<keyof Addon, true>

function isWhole(exports: Partial<Addon>): exports is Addon {
  return Object.keys(exportNames).every((name) => name in exports)
}

function checkAddon(exports: Partial<Addon>): Addon {
  checkLayouts(exports.layout ?? {})
  if (isWhole(exports)) return exports
  throw new ConfigError(
    '',
    'the native addon is of another build: build it again with `npm run build:native`',
  )
}
