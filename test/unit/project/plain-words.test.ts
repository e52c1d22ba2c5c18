// The prose of the tree uses plain words (CONTRIBUTING.md, "Prose"): no phrase of the list below in comments, texts and documents.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Phrase, phrasesIn, proseOfFile, prosePaths } from '../../support/prose.js'
import { treeFiles, treeText } from '../../support/tree.js'

/** Folders and files that the list holds for. */
const places = [
  'src/model/',
  'src/routing/',
  'src/host/',
  'src/server/',
  'src/process/',
  'src/address.ts',
  'src/backoff.ts',
  'src/clock.ts',
  'src/event.ts',
  'test/model/',
  'test/unit/engine/',
  'test/unit/events/',
  'test/unit/host/',
  'test/unit/model/',
  'test/unit/modes/',
  'test/unit/process/',
  'test/unit/project/',
  'test/unit/routing/',
  'test/unit/server/',
  'deploy/',
  'examples/',
  'CONTRIBUTING.md',
  'README.md',
  'docs/adr/',
  'CMakeLists.txt',
  'Dockerfile',
]

const phrases: readonly Phrase[] = [
  { pattern: /\btold\b/iu, say: '"reported", "logged" or "sent"' },
  { pattern: /\bnobody\b/iu, say: 'the subject: "no program", "no caller"' },
  { pattern: /\b(?:some|any|every)(?:body|one)\b/iu, say: 'the subject: "another program", "all clients"' },
  { pattern: /\bwho(?:m|so)?ever\b|\bwhom\b/iu, say: 'the subject: "the caller", "any program"' },
  { pattern: /\bwhatever\b/iu, say: '"any" or "regardless of"' },
  { pattern: /\bwish(?:es)?\b/iu, say: '"request" or "setting"' },
  { pattern: /\bowe[ds]?\b/iu, say: '"pending"' },
  { pattern: /\bdoors?\b/iu, say: '"interface"' },
  { pattern: /\bworld\b/iu, say: '"all objects"' },
  { pattern: /\btroubles?\b/iu, say: '"problem" or "error"' },
  { pattern: /\bnews\b/iu, say: '"difference" or "change"' },
  { pattern: /\banew\b/iu, say: '"again"' },
  { pattern: /\bbut\s+for\b/iu, say: '"except"' },
  { pattern: /\bof\s+it\b/iu, say: 'the noun in place of "it"' },
  { pattern: /\bis\s+another\s+one\b/iu, say: '"differs" or "is a different one"' },
  { pattern: /\bhas\s+to\s+go\b|\bsome\s+day\b/iu, say: '"is removed when"' },
  { pattern: /\bwithout\s+a\s+word\b|\bnot\s+a\s+word\b/iu, say: '"silently" or "logs nothing"' },
  { pattern: /\bbec(?:o|a)mes?\s+of\b/iu, say: '"the result of"' },
  { pattern: /\bthat\s+there\s+(?:is|are)(?=\s*(?:[.,;:)]|$))/iu, say: '"existing"' },
  // A sentence without a main clause: a comment or paragraph that begins with a relative pronoun and is no question.
  { pattern: /^\s*(?:What|Who|Whose)\b(?![^]*\?)[^.:;]*/u, say: 'a sentence with a subject and a verb' },
  // The same with a genitive: "Of all Services of a family together".
  { pattern: /^\s*Of\s[^,?]*$/u, say: 'a sentence with a subject and a verb' },
]

function objections(path: string): readonly string[] {
  return phrasesIn(path, treeText(path), phrases)
}

describe('the prose', () => {
  const files = treeFiles(prosePaths).filter((path) => places.some((place) => path.startsWith(place)))

  it('is in every place of the list', () => {
    const empty = places.filter(
      (place) =>
        !files.some((path) => path.startsWith(place) && proseOfFile(path, treeText(path)).length > 0),
    )
    assert.deepEqual(empty, [])
  })

  it('has no phrase of the list', () => assert.deepEqual(files.flatMap(objections), []))
})
