import { basename, dirname, join, relative, resolve } from 'node:path'
import type { FileSystem } from './file-system.js'

// The number of links in a row that Linux follows (path_resolution(7)).
const mostHops = 40

/**
 * The target of a path: its real path, or the first missing entry in an existing directory if the path leads to nothing.
 * undefined: it cannot be determined.
 */
export function leadsTo(path: string, fileSystem: FileSystem): string | undefined {
  const found = fileSystem.realPath(path)
  if (found !== undefined) return found
  let sought = path
  for (let hops = 0; hops < mostHops; hops++) {
    let child = sought
    let parent = fileSystem.realPath(dirname(child))
    while (parent === undefined) {
      child = dirname(child)
      if (child === dirname(child)) return undefined
      parent = fileSystem.realPath(dirname(child))
    }
    const missing = join(parent, basename(child))
    const text = fileSystem.linkText(missing)
    if (text === undefined) return missing
    sought = resolve(parent, text, relative(child, sought))
  }
  return undefined
}

interface WatchedTarget {
  readonly close: () => void
  /** File name in that directory to the links that lead to it. */
  readonly links: Map<string, Set<string>>
}

/** Follows files that are reached through symbolic links: events come from the directory that holds the bytes. */
export class LinkTargets {
  readonly #fileSystem: FileSystem
  readonly #changed: (link: string) => void
  readonly #directories = new Map<string, WatchedTarget>()
  readonly #targetOf = new Map<string, string>()

  constructor(fileSystem: FileSystem, changed: (link: string) => void) {
    this.#fileSystem = fileSystem
    this.#changed = changed
  }

  /** `target`: the current target of `link`, as `leadsTo` gives it. */
  follow(link: string, target: string): void {
    if (this.#targetOf.get(link) === target) return
    this.unfollow(link)
    const watched = this.#directory(dirname(target))
    if (watched === undefined) return
    this.#targetOf.set(link, target)
    const links = watched.links.get(basename(target)) ?? new Set()
    watched.links.set(basename(target), links.add(link))
  }

  unfollow(link: string): void {
    const target = this.#targetOf.get(link)
    if (target === undefined) return
    this.#targetOf.delete(link)
    const watched = this.#directories.get(dirname(target))
    const links = watched?.links.get(basename(target))
    links?.delete(link)
    if (links?.size === 0) watched?.links.delete(basename(target))
    if (watched?.links.size !== 0) return
    watched.close()
    this.#directories.delete(dirname(target))
  }

  close(): void {
    for (const { close } of this.#directories.values()) close()
    this.#directories.clear()
    this.#targetOf.clear()
  }

  #directory(path: string): WatchedTarget | undefined {
    const known = this.#directories.get(path)
    if (known !== undefined) return known
    const close = this.#fileSystem.watch(path, {
      changed: (name) => this.#announce(path, name),
      failed: () => this.#announce(path, undefined),
    })
    if (close === undefined) return undefined
    const watched = { close, links: new Map<string, Set<string>>() }
    this.#directories.set(path, watched)
    return watched
  }

  #announce(path: string, name: string | undefined): void {
    const links = this.#directories.get(path)?.links
    if (links === undefined) return
    const doubt = name === undefined || name === basename(path)
    const meant = doubt ? [...links.values()].flatMap((set) => [...set]) : [...(links.get(name) ?? [])]
    for (const link of meant) {
      // The directory may be replaced before the next look.
      if (doubt) this.unfollow(link)
      this.#changed(link)
    }
  }
}
