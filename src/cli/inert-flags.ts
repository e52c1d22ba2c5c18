// Flags of kube-proxy that change nothing in this build: they are taken, checked, written to files and told once in the log.
import {
  formatDuration,
  parseDuration,
  withInert,
  type ConfigInput,
  type InertPath,
} from '../config/index.js'
import { flagDefaults } from './flag-defaults.js'
import type { Flag } from './flag.js'
import { parseBoolean, parseQuantity, parseVerbosities } from './values.js'

export const inertFlags: readonly Flag[] = [
  {
    name: 'show-hidden-metrics-for-version',
    ...inert('showHiddenMetricsForVersion', (text) => text),
    value: 'VERSION',
    help: 'no effect: no metric is hidden',
  },
  {
    name: 'config-sync-period',
    ...inert('configSyncPeriod', (text) => formatDuration(parseDuration('configSyncPeriod', text))),
    value: 'DURATION',
    help: 'no effect: changes are followed as they come (default 15m)',
  },
]

/** Flags of cAdvisor that every kube-proxy has (measured on 1.31.0 and 1.36.0); no file has a field for them. */
export const leakedFlags: readonly Flag[] = ['boot-id-file', 'machine-id-file'].map((name) => ({
  name,
  value: 'FILES',
  field: name,
  help: "no effect: cAdvisor's, which kube-proxy does not use either",
  isBesideConfig: true,
  take: (input, text) => (text === flagDefaults[name] ? input : withFlagWithoutEffect(input, name)),
}))

function withFlagWithoutEffect(input: ConfigInput, name: string): ConfigInput {
  return { ...input, flagsWithoutEffect: [...new Set([...(input.flagsWithoutEffect ?? []), name])] }
}

export const inertLoggingFlags: readonly Flag[] = [
  {
    name: 'vmodule',
    isAdded: true,
    value: 'PATTERNS',
    field: 'logging.vmodule',
    help: 'no effect: PATTERN=LEVEL,OTHER=LEVEL for files of kube-proxy',
    isBesideConfig: true,
    take: (input, text) => {
      const before = input.withoutEffect?.['logging.vmodule'] ?? ''
      const both = [String(before), parseVerbosities('logging.vmodule', text)]
      return withInert(input, 'logging.vmodule', both.filter((part) => part !== '').join(','))
    },
  },
  {
    name: 'log-flush-frequency',
    ...inert('logging.flushFrequency', (text) =>
      formatDuration(parseDuration('logging.flushFrequency', text)),
    ),
    value: 'DURATION',
    help: 'no effect: each line is written at once (default 5s)',
    isBesideConfig: true,
  },
  ...streamFlags('text'),
  ...streamFlags('json'),
]

function streamFlags(format: 'text' | 'json'): readonly Flag[] {
  return [
    {
      name: `log-${format}-split-stream`,
      ...inert(`logging.options.${format}.splitStream`, (text) =>
        parseBoolean(`logging.options.${format}.splitStream`, text),
      ),
      value: undefined,
      help: 'no effect: all lines go to standard output',
      isBesideConfig: true,
    },
    {
      name: `log-${format}-info-buffer-size`,
      ...inert(`logging.options.${format}.infoBufferSize`, (text) =>
        parseQuantity(`logging.options.${format}.infoBufferSize`, text),
      ),
      value: 'SIZE',
      help: 'no effect: each line is written at once (default 0)',
      isBesideConfig: true,
    },
  ]
}

function inert(
  field: InertPath,
  parse: (text: string) => string | number | boolean,
): Pick<Flag, 'field' | 'take'> {
  return { field, take: (input, text) => withInert(input, field, parse(text)) }
}
