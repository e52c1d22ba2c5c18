// docs/flags.md: the tables of flags and fields, from the table of settings. Their last columns are kept from the document.
import { replacePart, rowsOf, tableOf } from './tables.mjs'

export async function fillFlags(document) {
  const { settings } = await import('../../out/ts/src/config/index.js')
  const flags = settings.filter(({ flag }) => flag !== undefined)
  const withFlags = replacePart(document, 'flags', (lines) =>
    tableOf(['flag', 'value', 'default', 'meaning', 'more'], kept(lines, [...flags.map(flagRow), ...ofTheParser])),
  )
  return [
    ['fields', 'KubeProxyConfiguration'],
    ['own fields', 'ViaductConfiguration'],
  ].reduce((text, [part, kind]) => {
    const rows = settings.filter(({ document: found }) => found === kind).map((row) => fieldRow(row, settings))
    const head = [`field of ${kind}`, 'default', 'flag', 'more']
    return replacePart(text, part, (lines) => tableOf(head, kept(lines, rows)))
  }, withFlags)
}

/** Flags that only the parser of the command line has. */
const ofTheParser = [
  ['`--version`', '', '', 'print the version and exit; `=raw` too. `=false` and `=v1.2.3`, which kube-proxy takes, have no effect'],
  ['`--help`, `-h`', '', '', 'print the flags and exit'],
]

/** Rows with the last cell of the document's row with the same name. Throws if the document has a row without a flag or field. */
function kept(lines, rows) {
  const cells = new Map(rowsOf(lines).map((row) => [row[0], row.at(-1)]))
  const gone = [...cells.keys()].find((name) => !rows.some(([known]) => known === name))
  if (gone !== undefined) throw new Error(`docs/flags.md: ${gone} is not in the table of settings`)
  return rows.map((row) => [...row, cells.get(row[0]) ?? ''])
}

/** `--v`, and its short form. */
function nameOf({ name }) {
  return name === 'v' ? '`--v`, `-v`' : `\`--${name}\``
}

function flagRow({ flag }) {
  const meaning = flag.help.replace(/--[a-z-]+[a-z]/gu, '`$&`')
  return [nameOf(flag), flag.metavar ?? 'boolean', code(flag.defaultText), meaning]
}

function fieldRow(setting, settings) {
  const { field, use, type, initial } = setting
  const flag = setting.flag ?? settings.find((other) => other.flag?.alsoSets.includes(setting))?.flag
  const facts = [flag && nameOf(flag).replace(/, .*/u, ''), use === 'none' ? 'no effect' : undefined]
  const preset = setting.flag?.defaultText ?? (initial === undefined ? '' : type.format?.(initial) ?? String(initial))
  return [`\`${field}\``, code(preset), facts.filter((fact) => fact !== undefined).join('; ')]
}

/** The text as code, with durations without trailing zero units; blank without a text. */
function code(text) {
  return text === '' ? '' : `\`${text.replace(/(?<=[hm])0m0s$|(?<=m)0s$/u, '')}\``
}
