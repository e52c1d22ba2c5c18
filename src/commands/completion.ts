// Scripts that complete commands and options in a shell.
import { type Command, optionsOf, type Option } from './command.js'

const shells = ['bash', 'zsh', 'fish'] as const

export const completionCommand: Command = {
  name: 'completion',
  help: 'a script that completes commands in a shell',
  description:
    'Prints a script for the shell. It completes the names of commands, of options, and of the Services of the running agent.',
  arguments: [{ name: 'SHELL', isRequired: true, help: 'the shell', choices: shells }],
  options: [],
  examples: [
    { line: 'completion bash > /etc/bash_completion.d/viaduct', help: 'completion for all users of bash' },
    { line: 'completion fish | source', help: 'completion in this fish' },
  ],
  isPlain: true,
  run: async ({ arguments: [shell = 'bash'], commands }) => {
    const text = completionScript(shell, commands)
    return await Promise.resolve({ value: text, table: () => text })
  },
}

/** The script of `shell`: bash, zsh (by its emulation of bash) or fish. */
function completionScript(shell: string, commands: readonly Command[]): string {
  if (shell === 'fish') return fishScript(commands)
  const bash = bashScript(commands)
  return shell === 'zsh' ? `autoload -U +X bashcompinit && bashcompinit\n${bash}` : bash
}

/** Prints the names of the Services that the agent programs. Nothing, while no agent answers. */
const serviceNames = "viaduct services 2>/dev/null | sed -n '2,$s/:.*//p' | sort -u"

const isService = (name: string | undefined): boolean => name === 'NS/NAME'

function dashed({ name, short }: Option): readonly string[] {
  return [`--${name}`, ...(short === undefined ? [] : [`-${short}`])]
}

/** A word with which `compgen -W` offers these words, or the names of Services. */
function bashWords(choices: readonly string[], hasServices: boolean): string {
  return `"${[...choices, ...(hasServices ? ['$(_viaduct_services)'] : [])].join(' ')}"`
}

function bashScript(commands: readonly Command[]): string {
  const names = commands.map(({ name }) => name)
  const cases = commands.map((command) => {
    const choices = command.arguments.flatMap((argument) => argument.choices ?? [])
    const hasServices = command.arguments.some(({ name }) => isService(name))
    const options = [...optionsOf(command).flatMap(dashed), '--help'].join(' ')
    return `    ${command.name}) options="${options}"; words=${bashWords(choices, hasServices)} ;;`
  })
  return `_viaduct_services() { ${serviceNames}; }
_viaduct() {
  local words="${names.join(' ')} help" options="" word="\${COMP_WORDS[COMP_CWORD]}" before="\${COMP_WORDS[COMP_CWORD-1]}"
  if [ "$COMP_CWORD" -gt 1 ]; then
    case "\${COMP_WORDS[1]}" in
${cases.join('\n')}
    help) words="${names.join(' ')}" ;;
    *) words="" ;;
    esac
    if [ "$word" = "=" ]; then word=""; elif [ "$before" = "=" ]; then before="\${COMP_WORDS[COMP_CWORD-2]}"; fi
    case "$before" in
${bashValues(commands).join('\n')}
    *) case "$word" in -*) words="$options" ;; esac ;;
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -o default -F _viaduct viaduct
`
}

/** A case for each option with a value. No words: names of files. */
function bashValues(commands: readonly Command[]): readonly string[] {
  // The form with choices is the last one: other commands have an option of that name without them.
  const forms = commands
    .flatMap(optionsOf)
    .toSorted((a, b) => (a.choices?.length ?? 0) - (b.choices?.length ?? 0))
    .filter(({ metavar }) => metavar !== undefined)
  const options = new Map(forms.map((option) => [option.name, option]))
  return [...options.values()].map(
    (option) =>
      `    ${dashed(option).join('|')}) words=${bashWords(option.choices ?? [], isService(option.metavar))} ;;`,
  )
}

function fishScript(commands: readonly Command[]): string {
  const first = (name: string, help: string): string =>
    `complete -c viaduct -n __fish_use_subcommand -f -a ${name} -d ${quoted(help)}`
  const help = [
    first('help', 'print the help of a command'),
    `complete -c viaduct -n '__fish_seen_subcommand_from help' -f -a ${quoted(commands.map(({ name }) => name).join(' '))}`,
  ]
  const lines = commands.flatMap((command) => {
    const chosen = `complete -c viaduct -n '__fish_seen_subcommand_from ${command.name}'`
    const choices = command.arguments.flatMap((argument) => argument.choices ?? [])
    const hasServices = command.arguments.some(({ name }) => isService(name))
    return [
      first(command.name, command.help),
      `${chosen} -f${fishWords(choices, hasServices)}`,
      ...optionsOf(command).map((option) => `${chosen}${fishOption(option)}`),
    ]
  })
  return `${[...lines, ...help].join('\n')}\n`
}

function fishWords(choices: readonly string[], hasServices: boolean): string {
  if (hasServices) return ` -a ${quoted(`(${serviceNames})`)}`
  return choices.length === 0 ? '' : ` -a ${quoted(choices.join(' '))}`
}

function fishOption({ name, short, metavar, help, choices = [] }: Option): string {
  const words = fishWords(choices, isService(metavar))
  const value = metavar === undefined ? '' : words === '' ? ' -r -F' : ` -r -f${words}`
  return ` -l ${name}${short === undefined ? '' : ` -s ${short}`}${value} -d ${quoted(help)}`
}

/** A word of fish. */
function quoted(text: string): string {
  return `'${text.replaceAll(/['\\]/g, String.raw`\$&`)}'`
}
