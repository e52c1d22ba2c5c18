// The scanner behind test/unit/project/plain-words.test.ts.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { identifiersWith, phrasesIn } from '../../support/prose.js'

const phrases = [
  { pattern: /\bred\s+fish\b/iu, say: '"salmon"' },
  { pattern: /^\s*What\b/u, say: 'a sentence' },
]

describe('the search for phrases', () => {
  const cases: readonly { name: string; path?: string; content: string; lines: readonly number[] }[] = [
    { name: 'finds one in a line comment', content: 'a()\n// A red fish.\n', lines: [2] },
    { name: 'finds one over two line comments', content: '  // A red\n  // fish.\n', lines: [1] },
    {
      name: 'finds one over two lines of a docstring',
      content: '/**\n * A\n * red\n * fish.\n */',
      lines: [3],
    },
    {
      name: 'finds one in each kind of text',
      content: 'f(\'red fish\')\nf("red fish")\nf(`red fish`)',
      lines: [1, 2, 3],
    },
    { name: 'finds each of two', content: '// Red fish.\na()\n// Red fish.', lines: [1, 3] },
    { name: 'finds one at the start of a comment', content: '/** What it is. */\n// Not What.', lines: [1] },
    {
      name: 'ignores identifiers and values in a text',
      content: 'red < fish\nf(`red ${a} fish`)',
      lines: [],
    },
    { name: 'ignores texts of one word', content: "f('What')", lines: [] },
    { name: 'ignores regular expressions', content: "f(/red fish's/u)\nf('a')", lines: [] },
    { name: 'is not confused by a URL in a text', content: "f('http://red') // fish", lines: [] },
    { name: 'is not confused by an escaped quote', content: String.raw`f('a\'s') // red fish`, lines: [1] },
    {
      name: 'is not confused by digit separators of C++',
      path: 'a.cc',
      content: "f(1'000);\n// red fish's",
      lines: [2],
    },
    {
      name: 'finds one over two lines of a paragraph',
      path: 'a.md',
      content: '# Red\n\nA red\nfish.',
      lines: [3],
    },
    { name: 'ignores code in Markdown', path: 'a.md', content: '`red fish`\n```\nred fish\n```', lines: [] },
    { name: 'keeps list items apart', path: 'a.md', content: '- red\n- fish', lines: [] },
    { name: 'finds one in a comment of YAML', path: 'a.yaml', content: 'a: 1\n# A red\n# fish.', lines: [2] },
    { name: 'ignores values in YAML', path: 'a.yaml', content: 'a: red fish', lines: [] },
    { name: 'finds one in C', path: 'a.c', content: 'f(1);\n// A red fish.', lines: [2] },
    {
      name: 'finds one in each kind of text and in a comment of Python',
      path: 'a.py',
      content: '"""Of a red\n\nA red\nfish.\n"""\nf(f\'red fish\', b"red fish")\n# A red\n# fish.',
      lines: [3, 6, 6, 7],
    },
    {
      name: 'finds one at the start of a docstring of Python',
      path: 'a.py',
      content: 'a = 1\n"""What it is."""',
      lines: [2],
    },
    {
      name: 'ignores identifiers and values in Python',
      path: 'a.py',
      content: 'red < fish\nf(f"red {a} fish", "What", "# red", "fish")',
      lines: [],
    },
    { name: 'ignores other files', path: 'a.json', content: '"red fish"', lines: [] },
  ]
  for (const { name, path = 'a.ts', content, lines } of cases) {
    it(name, () => {
      const found = phrasesIn(path, content, phrases).map((problem) => Number(problem.split(':')[1]))
      assert.deepEqual(found, lines)
    })
  }

  it('names the place, the phrase and its replacement', () => {
    assert.deepEqual(phrasesIn('a.ts', '// Two\n// red\n// fish.', phrases), [
      'a.ts:2: "red fish": say "salmon"',
    ])
  })
})

describe('the search for words of identifiers', () => {
  const cases: readonly { name: string; path?: string; content: string; found: readonly string[] }[] = [
    { name: 'finds a word in camel case', content: 'const bigRedFish = 1', found: ['a.ts: bigRedFish'] },
    { name: 'finds a word in capitals', content: 'RED_FISH()', found: ['a.ts: RED_FISH'] },
    { name: 'finds a private field', content: 'this.#red', found: ['a.ts: red'] },
    { name: 'names each identifier once', content: 'red = red', found: ['a.ts: red'] },
    { name: 'ignores parts of a word', content: 'reddish + hundred', found: [] },
    { name: 'ignores comments and texts', content: "f('red') // red", found: [] },
    { name: 'finds a word in Python', path: 'a.py', content: 'a.red_fish # red', found: ['a.py: red_fish'] },
    { name: 'ignores documents', path: 'a.md', content: 'red', found: [] },
  ]
  for (const { name, path = 'a.ts', content, found } of cases)
    it(name, () => assert.deepEqual(identifiersWith(path, content, ['red']), found))
})
