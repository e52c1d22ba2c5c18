import { resolve } from 'node:path'
import type { Config } from '../config/index.js'
import { BugError } from '../errors.js'
import { StateReporter, type Log } from '../log.js'
import type { Metrics } from '../metrics.js'
import type { FileSystem } from './manifests/file-system.js'
import { ManifestSource } from './manifests/manifest-source.js'
import type { Source } from './objects.js'
import type { Timers } from './timers.js'

export interface SourceDependencies {
  readonly fileSystem: FileSystem
  readonly timers: Timers
  readonly log: Log
  readonly metrics: Pick<Metrics, 'manifestErrors'>
}

/** The source that `config` asks for, not yet started. */
export function openSource(config: Pick<Config, 'manifests'>, dependencies: SourceDependencies): Source {
  if (config.manifests === undefined) throw new BugError('a source is opened without a manifests folder')
  const { fileSystem, timers, log, metrics } = dependencies
  const problems = new StateReporter({
    log,
    level: 'error',
    trouble: 'manifests: not in force as written',
    recovery: 'manifests: in force again',
    count: (count) => metrics.manifestErrors.set(count),
  })
  return new ManifestSource({ root: resolve(config.manifests), fileSystem, timers, log, problems })
}
