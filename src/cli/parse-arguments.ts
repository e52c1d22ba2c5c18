// The agent's flags, and their grammar.
import { Command, CommanderError, Option } from 'commander'
import {
  boolean,
  readConfig,
  resolveConfig,
  takeFlag,
  type Config,
  type ConfigInput,
  settings,
  type AnySetting,
  type Flag,
} from '../config/index.js'
import { ConfigError } from '../errors.js'
import { commands } from '../commands/index.js'
import { commit, version } from '../version.js'

/** A configuration file as it was read. */
export interface ConfigFile {
  readonly path: string
  readonly bytes: Uint8Array
}

/** A configuration to run, and where it comes from. */
export interface Configuration {
  readonly config: Config
  /** Absent without --config. */
  readonly configFile?: ConfigFile
  /** All flags by name, with their defaults, for the log and /flagz. */
  readonly flagTexts: Readonly<Record<string, string>>
}

/** The task of the process: run, or print `text` and exit. */
type Invocation =
  | Configuration
  /** Help or version, for standard output. */
  | { readonly exitCode: 0; readonly text: string }
  /** A usage error: a clause, and the line for standard error. */
  | { readonly exitCode: 2; readonly problem: string; readonly text: string }

/**
 * Reads arguments as kube-proxy does (`argv` without the program's two leading words). `readFile` gives the bytes of the file of
 * --config, or throws ConfigError. Without --config, the flags are added to `base`. Wrong arguments give a usage error; they do not
 * throw.
 */
export function parseArguments(
  argv: readonly string[],
  readFile: (path: string) => Uint8Array,
  base: ConfigInput = {},
): Invocation {
  const written: WrittenFlag[] = []
  let output = ''
  const command = buildCommand((flag, text) => written.push({ flag, text }))
  command.configureOutput({
    writeOut: (text) => {
      output += text
    },
    writeErr: () => undefined,
  })
  try {
    command.parse(wordsOf(argv), { from: 'user' })
    if (command.args.length > 0)
      return usage(`unexpected argument "${command.args[0]}": only flags are taken`)
    return configure(written, readFile, base)
  } catch (error) {
    if (error instanceof ConfigError) return usage(describeConfigError(error))
    if (!(error instanceof CommanderError)) throw error
    if (error.exitCode === 0) return { exitCode: 0, text: output }
    return usage(describeCommanderError(error))
  }
}

/** Throws ConfigError. */
function configure(
  written: readonly WrittenFlag[],
  readFile: (path: string) => Uint8Array,
  base: ConfigInput,
): Configuration {
  // All flags, because a wrong text is an error also for a flag that the file replaces.
  const input = takeFlags({}, written)
  const texts = flagTexts(written)
  const { configFile: path = '', strictConfig: isStrict = false } = input
  if (path === '') return { config: resolveConfig(takeFlags(base, written)), flagTexts: texts }
  const configFile = { path, bytes: readFile(path) }
  return { config: resolveFile(configFile, written, isStrict), configFile, flagTexts: texts }
}

/** Throws ConfigError, with the file's path for errors of the file. */
function resolveFile(
  { path, bytes }: ConfigFile,
  written: readonly WrittenFlag[],
  isStrict: boolean,
): Config {
  const beside = written.filter(({ flag }) => flag.isBesideConfig)
  const discarded = written.filter(({ flag }) => !flag.isBesideConfig)
  const discardedFlags = [...new Set(discarded.map(({ flag }) => flag.name))]
  const input = takeFlags(readConfig(path, bytes, { isStrict }), beside)
  try {
    return resolveConfig({ ...input, discardedFlags })
  } catch (error) {
    if (!(error instanceof ConfigError) || beside.some(({ flag }) => flag.setting.field === error.path))
      throw error
    throw new ConfigError(path, error.message)
  }
}

function takeFlags(input: ConfigInput, written: readonly WrittenFlag[]): ConfigInput {
  return written.reduce((result, { flag, text }) => takeFlag(result, flag.setting, text), input)
}

function buildCommand(take: (flag: SettingFlag, text: string) => void): Command {
  const command = new Command('viaduct')
    .description(
      "Programs the kernel's load balancing for the Services of a cluster, in place of kube-proxy.",
    )
    .version(`viaduct ${version} (commit ${commit})`, '--version', 'print the version and exit')
    .helpOption('-h, --help', 'print this help and exit')
    .configureHelp({ optionDescription: ({ description }) => description })
    .usage('[flags]\n       viaduct COMMAND [arguments] [options]')
    .addHelpText('after', commandHelp())
    .allowExcessArguments(true)
    .exitOverride()
  for (const flag of flags) {
    const option = new Option(declaration(flag), helpOf(flag))
    // A boolean flag without a value means true.
    if (flag.metavar === undefined) option.preset('true')
    option.argParser<string>((text) => {
      take(flag, text)
      return text
    })
    command.addOption(option)
  }
  return command
}

/** The commands, for the end of the agent's help. */
function commandHelp(): string {
  const lines = commands.map(({ name, help }) => `  ${name.padEnd(14)}${help}\n`)
  return `\nCommands (viaduct help COMMAND):\n${lines.join('')}`
}

function declaration({ name, metavar }: SettingFlag): string {
  const dashes = name.length === 1 ? `-${name}, --${name}` : `--${name}`
  return metavar === undefined ? `${dashes} [BOOL]` : `${dashes} <${metavar}>`
}

function helpOf({ help, defaultText }: SettingFlag): string {
  return ['', 'false'].includes(defaultText) ? help : `${help} (default ${defaultText})`
}

/** Throws ConfigError for a value that `--version` cannot have. */
function wordsOf(argv: readonly string[]): readonly string[] {
  return argv
    .map(normalizeWord)
    .flatMap((word) => (word.startsWith('--version=') ? versionWords(word) : [withoutUnknownValue(word)]))
}

/** Cuts the value off an unknown flag: commander compares the whole word with flag names to suggest one. */
function withoutUnknownValue(word: string): string {
  const name = /^--(?<name>[^=]+)=/u.exec(word)?.groups?.['name']
  if (name === undefined || name === 'help' || flags.some((flag) => flag.name === name)) return word
  return `--${name}`
}

/** As in kube-proxy: `raw` and true print the version; false and `v1.2.3` (a version to report instead) do not. */
function versionWords(word: string): readonly string[] {
  const value = word.slice('--version='.length)
  const isAsked = value === 'raw' || (!value.startsWith('v') && boolean.parse('--version', value))
  return isAsked ? ['--version'] : []
}

/** Turns `-v=4` into `--v=4`, and underscores in names into dashes: kube-proxy accepts both. */
function normalizeWord(word: string): string {
  const match = /^--?(?<name>[A-Za-z][\w-]*)(?<rest>=.*)?$/su.exec(word)
  const { name, rest } = match?.groups ?? {}
  if (name === undefined) return word
  if (!word.startsWith('--')) return rest === undefined || name !== 'v' ? word : `--v${rest}`
  return `--${name.replaceAll('_', '-')}${rest ?? ''}`
}

function usage(problem: string): Invocation {
  return { exitCode: 2, problem, text: `viaduct: ${problem} (see viaduct --help)\n` }
}

function describeConfigError({ path, message, problem }: ConfigError): string {
  const flag = flags.find(({ setting }) => setting.field === path)
  return flag === undefined ? message : `${dashed(flag.name)}: ${problem}`
}

/** The message of commander, with `one of` before several suggestions. */
const unknownOption = /^unknown option '(?<flag>.*)'(?:\n\(Did you mean (?<nearest>.*)\?\))?$/u

function describeCommanderError(error: CommanderError): string {
  if (error.code === 'commander.optionMissingArgument') {
    const flag = flags.find(({ name }) => error.message.includes(`--${name} `))
    if (flag !== undefined) return `${dashed(flag.name)}: needs a value (${flag.metavar})`
  }
  const message = error.message.replace(/^error: /u, '')
  const { flag, nearest } = unknownOption.exec(message)?.groups ?? {}
  if (flag === undefined) return message
  return `unknown flag ${flag}${nearest === undefined ? '' : `; did you mean ${nearest}?`}`
}

function dashed(name: string): string {
  return name.length === 1 ? `-${name}` : `--${name}`
}

/** A flag, and the setting that it sets. */
interface SettingFlag extends Flag {
  readonly setting: AnySetting
}

/** Every flag except --version and --help, in the order of the help. Flags of kube-proxy keep their names and meanings. */
export const flags: readonly SettingFlag[] = settings.flatMap((setting) =>
  setting.flag === undefined ? [] : [{ ...setting.flag, setting }],
)

/** A flag as it was written; a flag that was repeated is there twice. */
interface WrittenFlag {
  readonly flag: SettingFlag
  readonly text: string
}

/** The texts of all flags by name: those that were written, else the defaults. The login in a URL is left out. */
function flagTexts(written: readonly WrittenFlag[]): Readonly<Record<string, string>> {
  const texts = new Map(flags.map(({ name, defaultText }) => [name, defaultText]))
  const seen = new Set<string>()
  for (const { flag, text } of written) {
    const { name, setting } = flag
    const shown = text.replace(/\/\/[^/]*@/u, '//')
    const isAdded = setting.type.add !== undefined && seen.has(name)
    texts.set(name, isAdded ? `${texts.get(name)},${shown}` : shown)
    seen.add(name)
  }
  return Object.fromEntries(texts)
}
