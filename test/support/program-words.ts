// Finds quotations in documents, and checks that the program can print them.
import { treeFiles, treeText } from './tree.js'

/** The agent's sources, without the models of tests. */
const sources = /^(?:src\/(?!kernel\/model\/).*\.c?ts|native\/(?!test\/).*\.(?:cc|h))$/

/** All sources without comments, with concatenated string literals joined. */
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

/** The document without its code blocks. */
export function proseOf(markdown: string): string {
  return markdown.replaceAll(fence, '')
}

/** The lines of the document's code blocks. */
export function blockLines(markdown: string): readonly string[] {
  return [...markdown.matchAll(fence)].flatMap(([block]) => block.split('\n').slice(1, -1))
}

/** The texts between backticks in the document's prose. */
export function quotes(markdown: string): readonly string[] {
  return [...proseOf(markdown).matchAll(/`([^`]+)`/g)].map(([, quote = '']) => quote.replaceAll('\n', ' '))
}

/** A word that stands for a variable part: without lower-case letters, a flag, a path, a field, a module, a quoted text. */
const gap = /^[^a-z]*$|^--|[/"_]|\w\.\w/

/**
 * Whether the program can print this sentence. The program inserts values at run time, so the words between two gaps are searched in
 * the sources. One or two words count only if they are all words between two gaps, or a whole text there or its part between two values.
 */
export function canPrint(sentence: string, program: string): boolean {
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
  const canPrintFrom = (from: number): boolean => {
    if (from === words.length) return true
    for (let to = words.length; to > from; to--) if (has(from, to) && canPrintFrom(to)) return true
    return false
  }
  return canPrintFrom(0)
}

function wholeText(run: string): RegExp {
  const escaped = run.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&')
  return new RegExp(`['"\`}][\\s:;,.()]*${escaped}[\\s:;,.()?]*(?:['"\`]|\\$\\{)`)
}

function isGap(word: string | undefined): boolean {
  return word === undefined || gap.test(word)
}

/** Removes the punctuation that joins the parts of a sentence. */
function trimmed(text: string): string {
  return text.replaceAll(/^[\s:;,.()]+|[\s:;,.()?]+$/g, '')
}
