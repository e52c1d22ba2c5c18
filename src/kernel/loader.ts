// Finds and loads the addon.
import { constants } from 'node:os'
import { dirname, join } from 'node:path'
import { dlopen } from 'node:process'
import { fileURLToPath } from 'node:url'
import { ConfigError } from '../errors.js'
import { addonFile, type Addon } from './addon.js'
import { checkLayouts } from './records.js'

export interface LoaderOptions {
  /** VIADUCT_ADDON: the only candidate when set. */
  readonly addonPath?: string | undefined
  /** Where this code runs from: the bundle in dist/, or a compiled file below out/ts. */
  readonly moduleUrl: string
}

/** The paths that are tried, in order: beside the code, then the build's output in each folder above it. */
export function addonCandidates({ addonPath, moduleUrl }: LoaderOptions): readonly string[] {
  if (addonPath !== undefined && addonPath !== '') return [addonPath]
  const start = dirname(fileURLToPath(moduleUrl))
  const candidates = [join(start, addonFile)]
  for (let folder = start; ; folder = dirname(folder)) {
    // cmake-js and node-gyp write to Release, plain cmake does not.
    candidates.push(join(folder, 'build', 'Release', addonFile), join(folder, 'build', addonFile))
    if (folder === dirname(folder)) return candidates
  }
}

/** Throws ConfigError that lists each path with its error, and BugError when the addon is of another build. */
export function loadAddon(options: LoaderOptions): Addon {
  const problems: string[] = []
  for (const path of addonCandidates(options)) {
    const loaded: { exports: Partial<Addon> } = { exports: {} }
    try {
      // RTLD_NOW: a missing symbol fails here and not in traffic.
      dlopen(loaded, path, constants.dlopen.RTLD_NOW)
    } catch (error) {
      problems.push(
        `  ${path}: ${error instanceof Error ? (error.message.split('\n')[0] ?? '') : String(error)}`,
      )
      continue
    }
    return checkAddon(loaded.exports)
  }
  const advice = 'build it with `npm run build:native`, or name the file in VIADUCT_ADDON'
  throw new ConfigError('', `the native addon could not be loaded (${advice}); tried\n${problems.join('\n')}`)
}

function checkAddon({ IpvsSocket, RouteSocket, RouteEvents, layout = {} }: Partial<Addon>): Addon {
  checkLayouts(layout)
  if (IpvsSocket === undefined || RouteSocket === undefined || RouteEvents === undefined)
    throw new ConfigError(
      '',
      'the native addon is of another build: build it again with `npm run build:native`',
    )
  return { IpvsSocket, RouteSocket, RouteEvents, layout }
}
