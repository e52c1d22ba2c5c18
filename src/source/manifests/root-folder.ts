import { ConfigError } from '../../errors.js'
import type { FileSystem } from './file-system.js'

/** Throws ConfigError if `root` is not a folder. */
export function requireFolder(root: string, fileSystem: Pick<FileSystem, 'state'>): void {
  const kind = fileSystem.state(root)?.kind
  if (kind === undefined) throw new ConfigError(root, 'does not exist: create the manifests folder first')
  if (kind !== 'directory') throw new ConfigError(root, 'is not a folder')
}
