// Scripts that complete commands and options in a shell.
import { type Command, optionsOf, type Option } from './command.js'

const shells = ['bash', 'zsh', 'fish'] as const

export const completionCommand: Command = {
  name: 'completion',
  help: 'a script that completes commands in a shell',
  description: 'Prints a script for the shell. It completes the names of commands and options.',
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

function wordsOf(options: readonly Option[]): string {
  return options
    .flatMap(({ name, short }) => [`--${name}`, ...(short === undefined ? [] : [`-${short}`])])
    .join(' ')
}

function bashScript(commands: readonly Command[]): string {
  const cases = commands.map((command) => {
    const choices = command.arguments.flatMap((argument) => argument.choices ?? [])
    return `    ${command.name}) words="${[...choices, wordsOf(optionsOf(command))].join(' ').trim()} --help" ;;`
  })
  return `_viaduct() {
  local words="${commands.map(({ name }) => name).join(' ')} help"
  if [ "$COMP_CWORD" -gt 1 ]; then
    case "\${COMP_WORDS[1]}" in
${cases.join('\n')}
    *) words="" ;;
    esac
    case "\${COMP_WORDS[COMP_CWORD-1]}" in
    -o|--output) words="table json yaml" ;;
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _viaduct viaduct
`
}

function fishScript(commands: readonly Command[]): string {
  const lines = commands.flatMap((command) => {
    const chosen = `complete -c viaduct -n '__fish_seen_subcommand_from ${command.name}'`
    const choices = command.arguments.flatMap((argument) => argument.choices ?? [])
    return [
      `complete -c viaduct -n __fish_use_subcommand -f -a ${command.name} -d ${quoted(command.help)}`,
      ...(choices.length === 0 ? [] : [`${chosen} -f -a ${quoted(choices.join(' '))}`]),
      ...optionsOf(command).map(
        ({ name, short, metavar, help, choices: values }) =>
          `${chosen} -l ${name}${short === undefined ? '' : ` -s ${short}`}${metavar === undefined ? '' : ' -r'}${values === undefined ? '' : ` -f -a ${quoted(values.join(' '))}`} -d ${quoted(help)}`,
      ),
    ]
  })
  return `${lines.join('\n')}\n`
}

/** A word of fish. */
function quoted(text: string): string {
  return `'${text.replaceAll(/['\\]/g, String.raw`\$&`)}'`
}
