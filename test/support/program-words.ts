// The texts of the program, and the quotations of them in documents.
import { treeFiles, treeText } from './tree.js'

/** The agent's sources, without the models of tests. */
const sources = /^(?:src\/(?!kernel\/model\/).*\.c?ts|native\/(?!test\/).*\.(?:cc|h))$/

/** All sources without comments; texts that are written in pieces are put together. */
export function programText(): string {
  return treeFiles(sources)
    .map((path) => withoutComments(treeText(path)))
    .join('\n')
    .replaceAll(/['"`]\s*\+\s*['"`]/g, '')
    .replaceAll(/\\(['"`])/g, '$1')
}

export function withoutComments(text: string): string {
  return text.replaceAll(/\/\*[^]*?\*\//g, '').replaceAll(/(^|\s)\/\/.*$/gm, '$1')
}

const fence = /^```[^]*?^```$/gm

/** The document without its blocks of code. */
export function proseOf(markdown: string): string {
  return markdown.replaceAll(fence, '')
}

/** The lines of its blocks of code. */
export function blockLines(markdown: string): readonly string[] {
  return [...markdown.matchAll(fence)].flatMap(([block]) => block.split('\n').slice(1, -1))
}

/** The texts between backticks in its prose. */
export function quotes(markdown: string): readonly string[] {
  return [...proseOf(markdown).matchAll(/`([^`]+)`/g)].map(([, quote = '']) => quote.replaceAll('\n', ' '))
}

/** Stands for what varies: no small letters at all, a flag, a path, a field, a module, a text in quotes. */
const gap = /^[^a-z]*$|^--|[/"_]|\w\.\w/

/**
 * Whether the program can say this. A sentence is put together at run time: between what varies, three or more words in a row stand in
 * the sources, and fewer are all that stands between two gaps, or all of a text there, or of a text's part between what it fills in.
 */
export function isSaid(sentence: string, program: string): boolean {
  const words = sentence
    .replaceAll('…', ' … ')
    .split(' ')
    .filter((word) => word !== '')
  const has = (from: number, to: number): boolean => {
    if (to - from === 1 && isGap(words[from])) return true
    const run = trimmed(words.slice(from, to).join(' '))
    const isEnough = to - from > 2 || (isGap(words[from - 1]) && isGap(words[to]))
    return program.includes(run) && (isEnough || wholeText(run).test(program))
  }
  const isSaidFrom = (from: number): boolean => {
    if (from === words.length) return true
    for (let to = words.length; to > from; to--) if (has(from, to) && isSaidFrom(to)) return true
    return false
  }
  return isSaidFrom(0)
}

function wholeText(run: string): RegExp {
  const escaped = run.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&')
  return new RegExp(`['"\`}][\\s:;,.()]*${escaped}[\\s:;,.()?]*(?:['"\`]|\\$\\{)`)
}

function isGap(word: string | undefined): boolean {
  return word === undefined || gap.test(word)
}

/** The parts of a sentence are joined by colons and the like, which stand elsewhere. */
function trimmed(text: string): string {
  return text.replaceAll(/^[\s:;,.()]+|[\s:;,.()?]+$/g, '')
}
