// Warnings about valid settings that have no effect on any node, or not the effect that kube-proxy gives them.
import { settings, type Config } from './settings.js'
import { shownIn } from './config-file.js'

const withoutIpvs =
  'feature gate KubeProxyIPVS is false and mode is ipvs, which kube-proxy 1.37 refuses: ipvs mode runs all the same'

/** One sentence per kind of setting without effect; empty: every setting has its effect. */
export function inputWarnings(config: Config): readonly string[] {
  const changed = settings.filter((setting) => shownIn(config, setting) !== setting.initial)
  const inert = changed.filter(({ use }) => use === 'none')
  const client =
    config.manifests === undefined ? [] : changed.filter(({ place: [first] }) => first === 'client')
  return [
    ...naming('parts of the configuration file have no effect', config.ignoredFields, '; '),
    ...naming('unknown feature gates have no effect', config.featureGates.unknown),
    ...(config.mode === 'ipvs' && config.featureGates.withoutEffect['KubeProxyIPVS'] === false
      ? [withoutIpvs]
      : []),
    ...naming(
      'settings have no effect in this build',
      inert.filter(({ document }) => document !== undefined).map(({ field }) => field),
    ),
    ...naming(
      'settings have no effect while manifests are the source',
      client.map(({ field }) => field),
    ),
    ...naming(
      'flags have no effect in this build',
      inert.filter(({ document }) => document === undefined).map(({ field }) => dashed(field)),
    ),
    ...naming('flags have no effect beside --config', config.discardedFlags.map(dashed)),
  ]
}

function dashed(name: string): string {
  return `--${name}`
}

function naming(problem: string, named: readonly string[], separator = ', '): readonly string[] {
  return named.length === 0 ? [] : [`${problem}: ${named.join(separator)}`]
}
