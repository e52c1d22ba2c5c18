// Finds and loads the addon.
import { readFileSync, statSync } from 'node:fs'
import { constants, endianness } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { dlopen } from 'node:process'
import { fileURLToPath } from 'node:url'
import { BugError, ConfigError } from '../errors.js'
import { grammar } from './nftables/schema.js'
import { addonFile, type Addon, type RawNetworkNamespace } from './addon.js'
import { checkLayouts } from './layouts.js'

interface LoaderOptions {
  /** VIADUCT_ADDON: the only candidate when set; relative to the working directory. */
  readonly addonPath?: string | undefined
  /** URL of the running code: the bundle in dist/, or a compiled file below out/ts. */
  readonly moduleUrl: string
}

const advice = 'build it with `npm run build:native`, or name the file in VIADUCT_ADDON'

/** The candidates in order: beside the code, then the build folders of our package. */
export function addonCandidates({ addonPath, moduleUrl }: LoaderOptions): readonly string[] {
  if (addonPath !== undefined && addonPath !== '') return [resolve(addonPath)]
  const start = dirname(fileURLToPath(moduleUrl))
  const root = packageFolder(start)
  const beside = join(start, addonFile)
  if (root === undefined) return [beside]
  // cmake-js and node-gyp write to build/Release, plain cmake to build.
  return [beside, join(root, 'build', 'Release', addonFile), join(root, 'build', addonFile)]
}

/** The nearest folder above with our package.json, or undefined. An addon from a foreign folder must not run as root. */
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
    return false // absent or not readable
  }
}

/**
 * Throws ConfigError on a processor with big endian byte order. The records between TypeScript and the addon, and the structures of x_tables
 * that TypeScript writes, are little endian.
 */
export function checkProcessor(arch: string, byteOrder: 'BE' | 'LE'): void {
  if (byteOrder === 'BE')
    throw new ConfigError(
      '',
      `Viaduct does not run on this processor (${arch}): it is big endian; use a node with a little endian processor, such as x64 or arm64`,
    )
}

/** Throws ConfigError for the processor, the candidates or the load error, and BugError for an addon of another build. */
export function loadAddon(options: LoaderOptions): Addon {
  checkProcessor(process.arch, endianness())
  const candidates = addonCandidates(options)
  const path = candidates.find((candidate) => !isAbsent(candidate))
  if (path === undefined)
    throw new ConfigError('', `there is no native addon (${advice}); tried\n  ${candidates.join('\n  ')}`)
  const loaded: { exports: Partial<Addon> } = { exports: {} }
  try {
    // RTLD_NOW: a missing symbol fails here, not at its first use.
    dlopen(loaded, path, constants.dlopen.RTLD_NOW)
  } catch (error) {
    // Do not try the next candidate: an old build there would hide the broken file.
    const reason = error instanceof Error ? (error.message.split('\n')[0] ?? '') : String(error)
    throw new ConfigError('', `the native addon could not be loaded (${advice})\n  ${path}: ${reason}`)
  }
  return checkAddon(loaded.exports)
}

function isAbsent(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false }) === undefined
  } catch {
    return false // dlopen() reports the reason
  }
}

/** All exports; the type rejects a missing name. */
const exportNames = {
  IpvsSocket: true,
  NetworkNamespace: true,
  RouteSocket: true,
  RouteEvents: true,
  ConntrackSocket: true,
  IpsetSocket: true,
  NftSocket: true,
  NftTables: true,
  NftEvents: true,
  KernelLook: true,
  LookWatch: true,
  Relay: true,
  XtablesTable: true,
  PortHolder: true,
  ListenerSocket: true,
  notifyServiceManager: true,
  peerCredentials: true,
  clockStatus: true,
  layout: true,
  nftGrammar: true,
} as const satisfies Record<keyof Addon, true>

function isWhole(exports: Partial<Addon>): exports is Addon {
  return Object.keys(exportNames).every((name) => name in exports)
}

function checkAddon(exports: Partial<Addon>): Addon {
  checkLayouts(exports.layout ?? {})
  if (!isWhole(exports))
    throw new ConfigError(
      '',
      'the native addon is of another build: build it again with `npm run build:native`',
    )
  if (exports.nftGrammar !== grammar)
    throw new BugError(
      "the addon's nf_tables attributes are not this build's: build both from the same source",
    )
  return exports
}

/** The addon, with constructors that open their sockets in an empty network namespace. The first one creates it. Throws RawError. */
export function isolatedAddon(addon: Addon): Addon {
  let place: RawNetworkNamespace | undefined
  // A copy: the properties of the addon cannot be replaced.
  return new Proxy(
    { ...addon },
    {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name)
        return typeof value === 'function' && name !== 'NetworkNamespace' ? within(value) : value
      },
    },
  )

  function within(constructor: Function): Function {
    return new Proxy(constructor, {
      construct: (target, args) => {
        place ??= new addon.NetworkNamespace()
        return place.run((): object => Reflect.construct(target, args))
      },
    })
  }
}
