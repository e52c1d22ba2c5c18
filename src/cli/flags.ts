import { parseDuration, type ConfigInput } from '../config/index.js'
import { ConfigError } from '../errors.js'

/** One flag: its name without dashes, the field of Config that it sets, and how its text is taken over. */
export interface Flag {
  readonly name: string
  /** Upper-case word for the help; undefined: a boolean flag. */
  readonly value: string | undefined
  /** Path in Config, as ConfigError names it. */
  readonly field: string
  readonly help: string
  /** Returns `input` with the flag's value. Throws ConfigError for text that is no value of its type. */
  readonly take: (input: ConfigInput, text: string) => ConfigInput
}

/** Every flag of this build: kube-proxy's names and meanings where kube-proxy has the flag. */
export const flags: readonly Flag[] = [
  {
    name: 'manifests',
    value: 'DIR',
    field: 'manifests',
    help: 'folder with Services, EndpointSlices and Nodes as YAML or JSON; its changes are followed',
    take: (input, text) => ({ ...input, manifests: text }),
  },
  {
    name: 'proxy-mode',
    value: 'MODE',
    field: 'mode',
    help: 'how services are programmed: ipvs (blank: the same)',
    take: (input, text) => ({ ...input, mode: text }),
  },
  {
    name: 'hostname-override',
    value: 'NAME',
    field: 'hostnameOverride',
    help: "name of this node, instead of the machine's host name",
    take: (input, text) => ({ ...input, hostnameOverride: text }),
  },
  {
    name: 'ipvs-scheduler',
    value: 'NAME',
    field: 'ipvs.scheduler',
    help: 'scheduler of every virtual server, any that the kernel has (default rr)',
    take: (input, text) => ({ ...input, ipvs: { ...input.ipvs, scheduler: text } }),
  },
  {
    name: 'ipvs-sync-period',
    value: 'DURATION',
    field: 'ipvs.syncPeriod',
    help: 'how often the kernel is compared with what it should hold (default 30s)',
    take: (input, text) => ({
      ...input,
      ipvs: { ...input.ipvs, syncPeriodMs: parseDuration('ipvs.syncPeriod', text) },
    }),
  },
  {
    name: 'ipvs-min-sync-period',
    value: 'DURATION',
    field: 'ipvs.minSyncPeriod',
    help: 'shortest time between two syncs (default 0: at once when idle)',
    take: (input, text) => ({
      ...input,
      ipvs: { ...input.ipvs, minSyncPeriodMs: parseDuration('ipvs.minSyncPeriod', text) },
    }),
  },
  {
    name: 'ipvs-exclude-cidrs',
    value: 'CIDRS',
    field: 'ipvs.excludeCIDRs',
    help: 'networks, separated by commas, whose virtual servers are never removed; may be repeated',
    take: (input, text) => {
      const added = text.split(',').map((cidr) => cidr.trim())
      const excludeCIDRs = [...(input.ipvs?.excludeCIDRs ?? []), ...added.filter((cidr) => cidr !== '')]
      return { ...input, ipvs: { ...input.ipvs, excludeCIDRs } }
    },
  },
  {
    name: 'vip-binding',
    value: 'HOW',
    field: 'vipBinding',
    help: 'how VIPs become local: routes or addresses (default routes)',
    take: (input, text) => ({ ...input, vipBinding: text }),
  },
  {
    name: 'cleanup',
    value: undefined,
    field: 'cleanup',
    help: 'remove everything that was programmed, and exit',
    take: (input, text) => ({ ...input, cleanup: parseBoolean('cleanup', text) }),
  },
  {
    name: 'v',
    value: 'LEVEL',
    field: 'verbosity',
    help: 'how much is logged: 0 and 1 little, 2 and 3 syncs, 4 and more every object (default 0)',
    take: (input, text) => ({ ...input, verbosity: parseLevel('verbosity', text) }),
  },
  {
    name: 'logging-format',
    value: 'FORMAT',
    field: 'loggingFormat',
    help: 'json or text (default json)',
    take: (input, text) => ({ ...input, loggingFormat: text }),
  },
]

// strconv.ParseBool of Go.
const trueTexts = ['true', 'True', 'TRUE', 't', 'T', '1']
const falseTexts = ['false', 'False', 'FALSE', 'f', 'F', '0']

/** A boolean as Go's flags write it. Throws ConfigError with `field`. */
export function parseBoolean(field: string, text: string): boolean {
  if (trueTexts.includes(text)) return true
  if (falseTexts.includes(text)) return false
  throw new ConfigError(field, `must be true or false, not "${text}"`)
}

function parseLevel(field: string, text: string): number {
  if (/^\d{1,9}$/u.test(text)) return Number(text)
  throw new ConfigError(field, `must be a whole number from 0, not "${text}"`)
}
