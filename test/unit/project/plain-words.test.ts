// The prose of the tree uses plain words (CONTRIBUTING.md, "Prose"): no phrase of the list below in comments, texts and documents.
import assert from 'node:assert/strict'
import { it } from 'node:test'
import { identifiersWith, type Phrase, phrasesIn, prosePaths } from '../../support/prose.js'
import { treeFiles, treeText } from '../../support/tree.js'

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

const words = [
  'tell',
  'tells',
  'telling',
  'told',
  'trouble',
  'troubles',
  'owed',
  'wish',
  'nobody',
  'nobodys',
  'somebody',
  'everybody',
  'anew',
  'door',
  'doors',
  'said',
]

it('the prose of the tree has no phrase of the list', () => {
  const found = treeFiles(prosePaths).flatMap((path) => phrasesIn(path, treeText(path), phrases))
  assert.deepEqual(found, [])
})

it('the identifiers of the tree have no word of the list', () => {
  const found = treeFiles(prosePaths).flatMap((path) => identifiersWith(path, treeText(path), words))
  assert.deepEqual(found, [])
})
