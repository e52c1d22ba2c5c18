// docs/commands.md: the commands, from their table.
import { replacePart, tableOf } from './tables.mjs'

export async function fillCommands(document) {
  const { commands, commonOptions, exitCodes } = await import('../../out/ts/src/commands/index.js')
  const sections = commands.flatMap((command) => sectionOf(command))
  const withCommands = replacePart(document, 'commands', () => sections.slice(0, -1))
  const withOptions = replacePart(withCommands, 'options', () => tableOf(['option', 'default', 'meaning'], commonOptions.map(optionRow)))
  return replacePart(withOptions, 'exit codes', () =>
    tableOf(['code', 'meaning'], exitCodes.map(({ code, help }) => [`${code}`, help])),
  )
}

function sectionOf({ name, description, arguments: words, options, examples, finds }) {
  const usage = words.map((word) => (word.isRequired ? ` ${word.name}` : ` [${word.name}]`)).join('')
  const explained = words.map(({ name: word, help, choices }) => [`\`${word}\``, '', choices === undefined ? help : `${help}: ${choices.join(', ')}`])
  const rows = [...explained, ...options.map(optionRow)]
  return [
    `### viaduct ${name}${usage}`,
    '',
    ...wrapped(description),
    ...(finds === undefined ? [] : ['', `Exit code 1: ${finds}.`]),
    ...(rows.length === 0 ? [] : ['', ...tableOf(['argument or option', 'default', 'meaning'], rows)]),
    '',
    '```',
    ...examples.flatMap(({ line, help }) => [`# ${help}`, `viaduct ${line}`]),
    '```',
    '',
  ]
}

/** The text in lines of at most 130 characters. */
function wrapped(text) {
  return text.match(/.{1,130}(?:\s|$)/gu).map((line) => line.trimEnd())
}

function optionRow({ name, short, metavar, help, choices, initial }) {
  const value = metavar === undefined ? '' : ` ${metavar}`
  const names = [...(short === undefined ? [] : [`\`-${short}${value}\``]), `\`--${name}${value}\``]
  return [names.join(', '), initial === undefined ? '' : `\`${initial}\``, choices === undefined ? help : `${help}: ${choices.join(', ')}`]
}
