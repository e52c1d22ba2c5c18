// Prints the size of each room. Fails if a file has more than 500 lines, or a test more than 600.
import { readdirSync, readFileSync } from 'node:fs'
import { extname, join } from 'node:path'
import { isMain, root, runMain, StepError } from './steps.mjs'

const folders = ['src', 'native', 'test', 'scripts', 'bench']
const extensions = ['.ts', '.mjs', '.cc', '.c', '.h']

/** @typedef {{ readonly path: string, readonly lines: number }} Source */

/** @returns {readonly Source[]} */
function sources() {
  return folders.flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true })
      .map((name) => `${folder}/${name}`)
      .filter((path) => extensions.includes(extname(path)))
      .map((path) => ({ path, lines: readFileSync(join(root, path), 'utf8').split('\n').length - 1 })),
  )
}

/** @param {string} path */
function roomOf(path) {
  const parts = path.split('/').slice(0, -1)
  return parts.slice(0, ['layers', 'modes', 'unit'].includes(parts[1] ?? '') ? 3 : 2).join('/')
}

/** @param {Source} source */
function isTooLong({ path, lines }) {
  if (path.endsWith('_table.h')) return false // pure tables are exempt
  const isTest = path.startsWith('test/') || path.startsWith('native/test/')
  return lines > (isTest ? 600 : 500)
}

/**
 * @param {readonly number[]} ascending not empty
 * @param {number} share 0 to 1
 */
function quantile(ascending, share) {
  return ascending[Math.min(ascending.length - 1, Math.floor(ascending.length * share))]
}

async function main() {
  const rooms = new Map()
  for (const source of sources()) {
    const room = roomOf(source.path)
    rooms.set(room, [...(rooms.get(room) ?? []), source])
  }
  console.log(row(['room', 'files', 'lines', 'median', 'p95', 'longest']))
  for (const [room, files] of [...rooms].toSorted(([a], [b]) => a.localeCompare(b))) {
    const lines = files.map((file) => file.lines).toSorted((a, b) => a - b)
    const total = lines.reduce((sum, count) => sum + count, 0)
    console.log(row([room, files.length, total, quantile(lines, 0.5), quantile(lines, 0.95), lines.at(-1)]))
  }
  const tooLong = [...rooms.values()].flat().filter(isTooLong)
  if (tooLong.length > 0) {
    throw new StepError(
      `too long: ${tooLong.map(({ path, lines }) => `${path} (${lines} lines)`).join(', ')}`,
    )
  }
}

/** @param {readonly (string | number)[]} cells */
function row([name, ...numbers]) {
  return String(name).padEnd(28) + numbers.map((number) => String(number).padStart(9)).join('')
}

if (isMain(import.meta.url)) await runMain(main)
