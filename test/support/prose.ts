// Finds the prose of a file: comments, texts and Markdown paragraphs.

/** A piece of prose. Its text keeps the file's line breaks, so that a position in it gives a line. */
export interface Prose {
  /** Line of the file on which the piece begins, from 1. */
  readonly line: number
  readonly text: string
}

/** A phrase to avoid, and its replacement. */
export interface Phrase {
  /** Matches the phrase. NB: blanks must be `\s+`, since a phrase may go over a line break. */
  readonly pattern: RegExp
  readonly say: string
}

const lineComments = String.raw`//.*(?:\n[ \t]*//.*)*`
const blockComment = String.raw`/\*[^]*?\*/`
const singleQuoted = String.raw`'(?:[^'\\\n]|\\.)*'`
const doubleQuoted = String.raw`"(?:[^"\\\n]|\\.)*"`
const texts = [
  `(?<![0-9a-fA-F])${singleQuoted}`, // not a digit separator of C++
  doubleQuoted,
  String.raw`${'`'}(?:[^${'`'}\\]|\\[^])*${'`'}`,
]
const regularExpression = String.raw`(?<=[=(,:[!&|?{};\n]\s*)/(?![/*])(?:[^/\\\n[]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/`
const codeTokens = new RegExp([lineComments, blockComment, ...texts, regularExpression].join('|'), 'gu')
const hashComment = String.raw`(?<=^|\s)#.*(?:\n[ \t]*#.*)*`
const hashComments = new RegExp(hashComment, 'gu')
const docstring = '"""[^]*?"""'
const pythonTokens = new RegExp([docstring, hashComment, singleQuoted, doubleQuoted].join('|'), 'gu')
/** A paragraph, a heading, a list item or a table row. */
const paragraphs = /\S.*(?:\n(?!\s*(?:[|#>*-]|\d+\. )).*\S.*)*/gu
const markdownBlocks = /^```[^]*?^```$/gmu
const markdownQuotes = /`[^`]*`/gu

const code = /\.(?:[cm]?[jt]s|cc?|h)$/u
const python = /\.py$/u
const markdown = /\.md$/u
const configuration = /\.(?:ya?ml|service|env)$|(?:^|\/)(?:Dockerfile|CMakeLists\.txt)$/u

/** Paths of files in which `proseOfFile` finds prose. */
export const prosePaths = new RegExp(
  [code, python, markdown, configuration].map(({ source }) => source).join('|'),
  'u',
)

/** The prose of a file, by its path. A path outside `prosePaths` has none. */
export function proseOfFile(path: string, content: string): readonly Prose[] {
  if (code.test(path)) return proseOfCode(content)
  if (python.test(path)) return proseOfPython(content)
  if (markdown.test(path)) {
    const prose = content.replaceAll(markdownBlocks, blanked).replaceAll(markdownQuotes, masked)
    return found(prose, paragraphs)
  }
  if (!configuration.test(path)) return []
  return found(content, hashComments).map(withoutHashes)
}

function withoutHashes({ line, text }: Prose): Prose {
  return { line, text: text.replaceAll('#', ' ') }
}

/** Comments, and those string literals that have more than one word. */
function proseOfCode(content: string): readonly Prose[] {
  return found(content, codeTokens).flatMap(({ line, text }) => {
    if (text.startsWith('//')) return [{ line, text: text.replaceAll(/(?<=^|\n)[ \t]*\/\//gu, blanked) }]
    if (text.startsWith('/*'))
      return [{ line, text: text.replaceAll(/^\/\*+|\*+\/$|(?<=\n)[ \t]*\*/gu, blanked) }]
    return text.startsWith('/') ? [] : proseOfText(line, text.replaceAll(/\$\{[^}]*\}/gu, masked))
  })
}

/** Comments, and those strings that have more than one word, docstrings among them. */
function proseOfPython(content: string): readonly Prose[] {
  return found(content, pythonTokens).flatMap((token) => {
    if (token.text.startsWith('#')) return [withoutHashes(token)]
    const text = token.text.replaceAll(/^"""|"""$/gu, blanked)
    return proseOfText(token.line, text.replaceAll(/\{[^}]*\}/gu, masked))
  })
}

/** The text of a string literal if it has more than one word. */
function proseOfText(line: number, literal: string): readonly Prose[] {
  const text = literal.slice(1, -1)
  return /\w\s+\w/u.test(text) ? [{ line, text }] : []
}

function found(content: string, pattern: RegExp): readonly Prose[] {
  return [...content.matchAll(pattern)].map((match) => ({
    line: lineAt(content, match.index),
    text: match[0],
  }))
}

function lineAt(text: string, index: number): number {
  return text.slice(0, index).split('\n').length
}

function blanked(text: string): string {
  return text.replaceAll(/[^\n]/gu, ' ')
}

/** Stands for a value inside a sentence, so that the words around it are no phrase. */
function masked(text: string): string {
  return text.replaceAll(/[^\n]/gu, '$')
}

/** Identifiers of a source file that contain one of these words, as `path: name`; a path of other files has none. */
export function identifiersWith(path: string, content: string, words: readonly string[]): readonly string[] {
  const tokens = code.test(path) ? codeTokens : python.test(path) ? pythonTokens : undefined
  if (tokens === undefined) return []
  const names = content.replaceAll(tokens, blanked).match(/[A-Za-z_$][\w$]*/gu) ?? []
  const matching = names.filter((name) => wordsOf(name).some((word) => words.includes(word)))
  return [...new Set(matching)].map((name) => `${path}: ${name}`)
}

/** `setSocketName` and `SET_SOCKET_NAME` have the words set, socket and name. */
function wordsOf(identifier: string): readonly string[] {
  return (identifier.match(/[A-Z]?[a-z]+|[A-Z]+(?![a-z])/gu) ?? []).map((word) => word.toLowerCase())
}

/** Each use of a phrase as `path:line: "phrase": say "other words"`. */
export function phrasesIn(path: string, content: string, phrases: readonly Phrase[]): readonly string[] {
  return proseOfFile(path, content).flatMap(({ line, text }) =>
    phrases.flatMap(({ pattern, say }) =>
      [...text.matchAll(new RegExp(pattern, `${pattern.flags}g`))].map((match) => {
        const phrase = match[0].trim().replaceAll(/\s+/gu, ' ')
        return `${path}:${line + lineAt(text, match.index) - 1}: "${phrase}": say ${say}`
      }),
    ),
  )
}
