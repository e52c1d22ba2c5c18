// Where the functions of compiled files begin: V8 tells the ranges of those that a run has compiled.
import { Session } from 'node:inspector/promises'
import { fileURLToPath } from 'node:url'

/**
 * @typedef {object} FunctionPlace
 * @property {string} name empty: it has none
 * @property {number} start offset of its range in the text
 */

/**
 * The functions of the files below `folder` that exist after `work`, by file.
 * @param {string} folder ends with a slash
 * @param {() => Promise<void>} work
 * @returns {Promise<ReadonlyMap<string, readonly FunctionPlace[]>>}
 */
export async function functionsOf(folder, work) {
  const session = new Session()
  session.connect()
  await session.post('Profiler.enable')
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
  await work()
  const { result } = await session.post('Profiler.takePreciseCoverage')
  session.disconnect()
  /** @type {Map<string, readonly FunctionPlace[]>} */
  const found = new Map()
  for (const { url, functions } of result) {
    const path = url.startsWith('file://') ? fileURLToPath(url) : ''
    // The first one of a file is the module itself.
    const places = functions.slice(1).map(({ functionName, ranges: [range] }) => ({
      name: functionName,
      start: range?.startOffset ?? 0,
    }))
    if (path.startsWith(folder)) found.set(path, places)
  }
  return found
}

/** The text after a string, a template or a comment that begins at `at`; `at` itself if none does. */
function afterLiteral(text, at) {
  const first = text[at]
  if (first === '/' && text[at + 1] === '/') return text.indexOf('\n', at)
  if (first === '/' && text[at + 1] === '*') return text.indexOf('*/', at) + 2
  if (first !== "'" && first !== '"' && first !== '`') return at
  for (let next = at + 1; next < text.length; next++) {
    if (text[next] === '\\') next++
    else if (text[next] === first) return next + 1
  }
  return text.length
}

/**
 * The offset behind the brace that opens the body of the function at `start`; undefined: its body is an expression.
 * @param {string} text
 * @param {number} start
 * @returns {number | undefined}
 */
export function bodyOf(text, start) {
  let depth = 0
  let hasParameters = false
  for (let at = start; at < text.length; at++) {
    const after = afterLiteral(text, at)
    if (after > at) {
      at = after - 1
      continue
    }
    const char = text[at]
    if ('([{'.includes(char)) {
      if (char === '{' && depth === 0 && hasParameters) return at + 1
      depth++
    } else if (')]}'.includes(char)) {
      depth--
      if (depth === 0 && char === ')') hasParameters = true
      if (depth < 0) return undefined
    } else if (hasParameters && depth === 0 && !/[\s=>]/.test(char)) return undefined
  }
  return undefined
}
