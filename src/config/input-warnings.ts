// What an operator should know of valid input that is not in force, whatever the node is.
import { writtenOfClient } from './client.js'
import type { Config } from './config.js'

/** One sentence per setting without effect; empty: every setting has its effect. */
export function inputWarnings(config: Config): readonly string[] {
  const { manifests, client } = config
  return [
    ...naming('the configuration file is not all in force', config.ignoredFields, '; '),
    ...naming('feature gates that are unknown, and have no effect', config.featureGates.unknown),
    ...naming('settings without effect in this build', Object.keys(config.withoutEffect)),
    ...naming(
      'settings without effect while manifests are the source',
      manifests === undefined ? [] : writtenOfClient(client),
    ),
    ...naming('flags without effect in this build', config.flagsWithoutEffect.map(dashed)),
    ...naming('flags without effect beside --config', config.discardedFlags.map(dashed)),
  ]
}

function dashed(name: string): string {
  return `--${name}`
}

function naming(problem: string, named: readonly string[], separator = ', '): readonly string[] {
  return named.length === 0 ? [] : [`${problem}: ${named.join(separator)}`]
}
