import { commit, version } from '../version.js'
import { inputOf } from './config-input.js'
import { withValueAt } from './places.js'
import type { Others } from './setting.js'
import { isModeUnset } from './settings-traffic.js'
import { settings, type Config, type ConfigInput } from './settings.js'

/** Fills defaults and validates. Throws ConfigError whose `path` is the setting's field, such as `ipvs.scheduler`. */
export function resolveConfig(input: ConfigInput): Config {
  const others: Others = {
    inputOf: (setting) => inputOf(input, setting),
    valueOf: (setting) => setting.resolve(inputOf(input, setting), setting.field, others),
  }
  const { ignoredFields = [], discardedFlags = [] } = input
  let config: Readonly<Record<string, unknown>> = {
    ignoredFields,
    discardedFlags,
    withoutEffect: {},
    isModeUnset: isModeUnset(others),
    version,
    commit,
  }
  for (const setting of settings) {
    const value = others.valueOf(setting)
    const isPart = setting.use === 'config' || (setting.use === 'none' && value !== setting.initial)
    if (isPart) config = withValueAt(config, setting.place, value)
  }
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the type follows from the rows that the loop went through
  return config as unknown as Config
}
