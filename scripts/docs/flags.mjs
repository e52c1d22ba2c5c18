// docs/flags.md: which flags and fields there are, in which order, their defaults and which belongs to which, from the code; what they
// mean, and remarks behind a default, from the document.
import { loadAll } from 'js-yaml'
import { replacePart, rowsOf, tableOf } from './tables.mjs'

export async function fillFlags(document) {
  const { flags } = await import('../../out/ts/src/cli/index.js')
  const { formatConfig, resolveConfig } = await import('../../out/ts/src/config/index.js')
  const { inertDefaults } = await import('../../out/ts/src/config/without-effect.js')
  const [{ kind, ...rest }] = loadAll(formatConfig(resolveConfig({ manifests: 'folder' })))
  const defaults = new Map(leavesOf(rest).filter(([path]) => path !== 'apiVersion'))
  const filled = replacePart(document, 'flags', (lines) => {
    const words = new Map(rowsOf(lines).map((row) => [row[0], row]))
    const rows = flags.map((flag) => flagRow(flag, words.get(nameOf(flag)), defaults.get(flag.field)))
    return tableOf(['flag', 'value', 'default', 'meaning'], [...rows, ...ofTheParser])
  })
  return replacePart(filled, 'fields', (lines) => {
    const words = new Map(rowsOf(lines).map((row) => [row[0], row]))
    const rows = [...defaults].map(([path, value]) => {
      const flag = flags.find(({ field }) => field === path)
      return fieldRow({ path, value, flag, isInert: path in inertDefaults }, words.get(`\`${path}\``))
    })
    return tableOf([`field of ${kind}`, 'default', 'flag'], rows)
  })
}

/** No flag of ours: whoever parses the others adds them. */
const ofTheParser = [
  ['`--version`', '', '', 'print the version and exit; `=raw` too. `=false` and `=v1.2.3`, which kube-proxy takes, change nothing'],
  ['`--help`, `-h`', '', '', 'print the flags and exit'],
]

/** `--v`, and its short form. */
function nameOf({ name }) {
  return name === 'v' ? '`--v`, `-v`' : `\`--${name}\``
}

function flagRow(flag, row, preset) {
  const name = nameOf(flag)
  if (row === undefined) throw new Error(`docs/flags.md does not say in words what ${name} is`)
  const [, value, written, meaning] = row
  if ((value === 'boolean') !== (flag.value === undefined))
    throw new Error(`docs/flags.md: ${name} ${flag.value === undefined ? 'is' : 'is not'} boolean`)
  return [name, value, withDefault(written, preset, spelledForFlag), meaning]
}

function spelledForFlag(text) {
  return text.replace(/^0s$/u, '0').replace(/^"(.*)"$/u, '$1')
}

/** The default as the code has it, with the remarks that are behind it; in words where it is nothing. */
function withDefault(written, preset, spelled = (text) => text) {
  if (preset === undefined || ['""', '[]', '{}'].includes(yaml(preset))) return written
  return `\`${spelled(yaml(preset))}\`${written.replace(/^`[^`]*`/u, '')}`
}

function fieldRow({ path, value, flag, isInert }, [, written = '', words = ''] = []) {
  const generated = [flag && nameOf(flag).replace(/, .*/u, ''), isInert ? 'no effect' : undefined]
  const facts = generated.filter((fact) => fact !== undefined).join('; ')
  const remark = written.replace(/^`[^`]*`/u, '')
  if (facts === '' && words === '') throw new Error(`docs/flags.md does not say what sets ${path}`)
  return [`\`${path}\``, `\`${yaml(value)}\`${remark}`, facts === '' ? words : facts]
}

function leavesOf(value, path = '') {
  const isLeaf = typeof value !== 'object' || Array.isArray(value) || Object.keys(value).length === 0
  if (isLeaf) return [[path, value]]
  return Object.entries(value).flatMap(([key, inner]) => leavesOf(inner, path === '' ? key : `${path}.${key}`))
}

/** As one would write it; durations without zeros at their end. */
function yaml(value) {
  if (typeof value !== 'string') return JSON.stringify(value)
  if (value === '' || /^\d+$/u.test(value)) return JSON.stringify(value)
  return value.replace(/(?<=[hm])0m0s$|(?<=m)0s$/u, '')
}
