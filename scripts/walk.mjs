// Follows one replaced endpoint through the code, from its event to the kernel's interface, in each mode: npm run walk [-- --pairs | --steps]
// Prints a row for each mode: rooms, changes of room between functions that are entered one after the other, files, and functions. With
// --pairs, also the pairs of rooms with most changes; with --steps, the functions in their order, a line for each visit of a room. The modes run on the model kernel of the tests, whose own functions do not count.
import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { basename, join, relative } from 'node:path'
import { isMain, must, root, runMain } from './steps.mjs'
import { replaceEndpoint } from './walk/follow.mjs'
import { bodyOf, functionsOf } from './walk/functions.mjs'

const ways = ['iptables legacy', 'iptables nft', 'nftables nft', 'userspace nft', 'ipvs legacy']
const compiled = join(root, 'out/ts')
const marked = join(root, 'out/walk')
const shownPairs = 5

/** @typedef {{ readonly path: string, readonly room: string, readonly name: string }} Place */

/** @param {string} path below src, such as `modes/ipvs/chains.js` */
function roomOf(path) {
  const parts = path.split('/').slice(0, -1)
  return parts.slice(0, parts[0] === 'modes' ? 2 : 1).join('/')
}

/**
 * Copies the compiled tree. Each function of src in the copy calls `viaductEnter` with its number.
 * @returns {Promise<readonly Place[]>} by number
 */
async function markFunctions() {
  const source = `${compiled}/src/`
  const all = await functionsOf(source, async () => {
    for (const way of ways) await replaceEndpoint(compiled, way)
  })
  rmSync(marked, { recursive: true, force: true })
  cpSync(compiled, marked, { recursive: true })
  /** @type {Place[]} */
  const places = []
  for (const [file, functions] of all) {
    const path = relative(source, file)
    let text = readFileSync(file, 'utf8')
    const bodies = new Map(functions.map(({ name, start }) => [bodyOf(text, start), name]))
    for (const [body, name] of [...bodies].toSorted(([a = 0], [b = 0]) => b - a)) {
      if (body === undefined) continue
      const number = places.push({ path, room: roomOf(path), name }) - 1
      text = `${text.slice(0, body)} globalThis.viaductEnter?.(${number});${text.slice(body)}`
    }
    writeFileSync(join(marked, 'src', path), text)
  }
  return places
}

/** @param {readonly string[]} rooms in the order of entering */
function changesOf(rooms) {
  /** @type {Map<string, number>} */
  const pairs = new Map()
  let changes = 0
  for (const [index, room] of rooms.entries()) {
    const before = rooms[index - 1] ?? room
    if (room === before) continue
    changes++
    const pair = [before, room].toSorted().join(' and ')
    pairs.set(pair, (pairs.get(pair) ?? 0) + 1)
  }
  return { changes, pairs }
}

/**
 * @param {string} way
 * @param {readonly Place[]} places
 */
async function walk(way, places) {
  /** @type {number[]} */
  const entered = []
  await replaceEndpoint(marked, way, (isBegin) => {
    globalThis.viaductEnter = isBegin ? (number) => entered.push(number) : undefined
  })
  const visited = entered.flatMap((number) => places[number] ?? [])
  // The files of src/ itself are no room: each room uses them.
  const inRooms = visited.filter(({ room }) => room !== '')
  const rooms = inRooms.map(({ room }) => room)
  const { changes, pairs } = changesOf(rooms)
  const files = new Set(visited.map(({ path }) => path)).size
  console.log(`| ${way} | ${new Set(rooms).size} | ${changes} | ${files} | ${new Set(entered).size} |`)
  if (process.argv.includes('--steps')) printSteps(inRooms)
  if (!process.argv.includes('--pairs')) return
  const most = [...pairs].toSorted(([, a], [, b]) => b - a).slice(0, shownPairs)
  for (const [pair, count] of most) console.log(`  ${count} between ${pair}`)
}

/** @param {readonly Place[]} visited */
function printSteps(visited) {
  let line = ''
  for (const [index, { room, name, path }] of visited.entries()) {
    const isNewRoom = room !== visited[index - 1]?.room
    if (isNewRoom && line !== '') console.log(line)
    if (isNewRoom) line = `  ${room}:`
    line += ` ${name === '' ? basename(path, '.js') : name}`
  }
  console.log(line)
}

async function main() {
  await must(['npx', 'tsc', '-p', 'tsconfig.json'])
  const places = await markFunctions()
  console.log('| mode | rooms | changes of room | files | functions |\n|---|---|---|---|---|')
  for (const way of ways) await walk(way, places)
  process.exit(0)
}

if (isMain(import.meta.url)) await runMain(main)
