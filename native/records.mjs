// Reads the packed records from native/*/record.h, their only description, and writes what follows from them:
//   node native/records.mjs                src/kernel/*/layout.ts: offsets and numbers as constants (in git)
//   node native/records.mjs --check        writes nothing and fails where a layout.ts would change
//   node native/records.mjs --table FILE   the C++ table that the addon exports as `layout` (made by every build)
import { mkdirSync, readdirSync, readFileSync, realpathSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

const native = dirname(fileURLToPath(import.meta.url))
const root = join(native, '..')

/** An error for the user, printed without a stack. */
class HeaderError extends Error {
  name = 'HeaderError'
}

/** Sizes in bytes. Each type is aligned to its size. */
const typeSizes = { char: 1, uint8_t: 1, uint16_t: 2, uint32_t: 4, int32_t: 4, uint64_t: 8 }

/**
 * @typedef {object} Part an object of layout.ts
 * @property {string} name in TypeScript
 * @property {boolean} isRecord false: the numbers of an enum, or constants
 * @property {readonly { readonly name: string, readonly value: number, readonly cpp: string }[]} members `cpp`: the value in C++
 */

/** @param {string} name snake_case or PascalCase */
function camel(name) {
  const joined = name.replaceAll(/_(.)/g, (_, letter) => letter.toUpperCase())
  return joined[0].toLowerCase() + joined.slice(1)
}

/** @param {string} name PascalCase */
function kebab(name) {
  return name.replaceAll(/(?!^)[A-Z]/g, (letter) => `-${letter}`).toLowerCase()
}

/**
 * @param {RegExpExecArray} opening of an `enum class`, whose numbers stand for names such as 'add-route', or of an `enum` of bits
 * @param {readonly { readonly text: string, readonly fail: (problem: string) => never }[]} lines
 * @returns {Part}
 */
function parseEnum([, scoped, name], lines) {
  const members = lines.map(({ text, fail }) => {
    const [, enumerator, value] =
      /^(k[A-Z]\w*) = (0x[0-9a-f]+|\d+)$/.exec(text) ?? fail('an enumerator is "kName = NUMBER"')
    const short = enumerator.slice(1).replace(new RegExp(`^${name}(?=[A-Z])`), '')
    const cpp = `${scoped ? `${name}::` : ''}${enumerator}`
    return { name: scoped ? kebab(short) : camel(short), value: Number(value), cpp }
  })
  return { name: `${camel(name)}${scoped ? 'Number' : 'Bit'}`, isRecord: false, members }
}

/**
 * @param {string} name of the struct
 * @param {readonly { readonly text: string, readonly fail: (problem: string) => never }[]} lines
 * @param {Readonly<Record<string, number>>} sizes of the types that a field may have
 * @returns {Part}
 */
function parseRecord(name, lines, sizes) {
  const members = []
  let offset = 0
  let alignment = 1
  for (const { text, fail } of lines) {
    const [, type, field, count] =
      /^(\w+) (\w+)(?:\[(\d+)\])?$/.exec(text) ?? fail('a field is "TYPE NAME" or "TYPE NAME[COUNT]"')
    const size = sizes[type] ?? fail(`a field is of ${Object.keys(sizes).join(', ')}`)
    if (offset % size !== 0) fail(`${field} is at byte ${offset}: add reserved bytes before it`)
    if (field !== 'reserved')
      members.push({ name: camel(field), value: offset, cpp: `offsetof(${name}, ${field})` })
    offset += size * Number(count ?? 1)
    alignment = Math.max(alignment, size)
  }
  const missing = (alignment - (offset % alignment)) % alignment
  if (missing > 0) lines.at(-1).fail(`${name} ends at byte ${offset}: add ${missing} reserved bytes`)
  const size = { name: 'size', value: offset, cpp: `sizeof(${name})` }
  return {
    name: `${camel(name.slice(0, -'Record'.length))}Layout`,
    isRecord: true,
    members: [size, ...members],
  }
}

/**
 * Throws HeaderError, with the line, for a record, an enum or a constant that is not in this project's notation.
 * @param {string} path of the header, for errors
 * @param {string} text of the header
 * @returns {readonly Part[]} its constants, its enums, and its structs that are named *Record
 */
function parseHeader(path, text) {
  /** @type {Part[]} */
  const parts = []
  const constants = []
  const sizes = { ...typeSizes }
  /** @type {{ opening: RegExpExecArray, lines: { text: string, fail: (problem: string) => never }[] } | undefined} */
  let open
  for (const [index, line] of text.split('\n').entries()) {
    const code = line.replace(/\/\/.*$/, '').trim()
    const fail = (problem) => {
      throw new HeaderError(`${path}:${index + 1}: ${problem}, not "${code}"`)
    }
    if (open === undefined) {
      const opening = /^(?:struct \w+Record|enum (class )?(\w+) : (\w+)) \{$/.exec(code)
      if (opening !== null) open = { opening, lines: [] }
      else if (/^struct \w+Record\b|^enum\b/.test(code))
        fail('a record or an enum of a given size opens with its own line')
      else if (code.startsWith('inline constexpr')) {
        const [, cpp, value] =
          /^inline constexpr uint32_t (k[A-Z]\w*) = (0x[0-9a-f]+|\d+);$/.exec(code) ??
          fail('a constant is "inline constexpr uint32_t kName = NUMBER;"')
        constants.push({ name: camel(cpp.slice(1)), value: Number(value), cpp })
      }
    } else if (code === '};') {
      const { opening, lines } = open
      const [head, , name, type] = opening
      if (lines.length === 0) fail('a record or an enum has members')
      if (name === undefined)
        parts.push(parseRecord(head.slice('struct '.length, -' {'.length), lines, sizes))
      else {
        parts.push(parseEnum(opening, lines))
        sizes[name] = typeSizes[type] ?? fail(`an enum is of ${Object.keys(typeSizes).join(', ')}`)
      }
      open = undefined
    } else if (code !== '') open.lines.push({ text: code.replace(/[;,]$/, ''), fail })
  }
  if (constants.length > 0) parts.unshift({ name: 'constant', isRecord: false, members: constants })
  return parts
}

/** @returns {readonly { readonly room: string, readonly parts: readonly Part[] }[]} every room of native/ that has records */
function readRooms() {
  return readdirSync(native, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => ({ room: name, path: join(native, name, 'record.h') }))
    .filter(({ path }) => isFile(path))
    .toSorted((a, b) => (a.room < b.room ? -1 : 1))
    .map(({ room, path }) => ({ room, parts: parseHeader(relative(root, path), readFileSync(path, 'utf8')) }))
}

/** @param {string} path */
function isFile(path) {
  return statSync(path, { throwIfNoEntry: false })?.isFile() === true
}

/**
 * @param {string} room
 * @param {readonly Part[]} parts
 * @returns {string} the text of src/kernel/ROOM/layout.ts
 */
function typescript(room, parts) {
  const objects = parts.map(({ name, isRecord, members }) => {
    const lines = members.map(
      (member) => `  ${/^\w+$/.test(member.name) ? member.name : `'${member.name}'`}: ${member.value},\n`,
    )
    return `export const ${name} = {\n${lines.join('')}} as const${isRecord ? ' satisfies RecordLayout' : ''}\n`
  })
  return [
    `// Written by \`node native/records.mjs\` from native/${room}/record.h, which documents the fields. Do not edit.\n` +
      `import type { RecordLayout } from '../records.js'\n`,
    ...objects,
  ].join('\n')
}

/**
 * @param {ReturnType<typeof readRooms>} rooms
 * @returns {string} a C++ header: every member of every layout.ts with the value that the compiler knows
 */
function table(rooms) {
  const rows = rooms.flatMap(({ room, parts }) =>
    parts.flatMap(({ name, members }) =>
      members.map((member) => {
        const value = member.cpp.replace(/^(\w+\()?/, `$1${room}::`)
        return `    {"${room}", "${name}", "${member.name}", static_cast<size_t>(${value})},\n`
      }),
    ),
  )
  return `// Written by native/records.mjs.
#pragma once

#include <cstddef>

${rooms.map(({ room }) => `#include "${room}/record.h"\n`).join('')}
namespace viaduct::binding {

struct LayoutRow {
  const char* room;
  const char* part;
  const char* member;
  size_t value;
};

inline constexpr LayoutRow kLayoutTable[] = {
${rows.join('')}};

}  // namespace viaduct::binding
`
}

/** Writes the file only if its content differs, so that no file is compiled again without need. */
function replaceContent(path, content) {
  if (isFile(path) && readFileSync(path, 'utf8') === content) return
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, content)
}

function main() {
  const { values } = parseArgs({
    options: { check: { type: 'boolean', default: false }, table: { type: 'string' } },
  })
  const rooms = readRooms()
  if (values.table !== undefined) return replaceContent(values.table, table(rooms))
  for (const { room, parts } of rooms) {
    const path = join(root, 'src', 'kernel', room, 'layout.ts')
    const content = typescript(room, parts)
    if (!values.check) replaceContent(path, content)
    else if (!isFile(path) || readFileSync(path, 'utf8') !== content)
      throw new HeaderError(
        `${relative(root, path)} differs from native/${room}/record.h: run node native/records.mjs`,
      )
  }
}

if (process.argv[1] !== undefined && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  try {
    main()
  } catch (error) {
    if (!(error instanceof HeaderError)) throw error
    console.error(`error: ${error.message}`)
    process.exitCode = 1
  }
}
