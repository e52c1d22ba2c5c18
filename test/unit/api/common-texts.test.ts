import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import * as fc from 'fast-check'
import { CommonTexts } from '../../../src/api/formats/common-texts.js'

/** Reads the text between other bytes, as in a message. */
function readAmidst(texts: CommonTexts, written: Uint8Array): string {
  const bytes = Buffer.concat([Buffer.from('['), written, Buffer.from(']')])
  return texts.read(bytes, 1, 1 + written.length)
}

describe('CommonTexts', () => {
  it('reads the text of the bytes, regardless of earlier reads', () => {
    const texts = new CommonTexts()
    const anyText = fc.oneof(fc.string({ maxLength: 70 }), fc.string({ unit: 'grapheme', maxLength: 20 }))
    fc.assert(
      fc.property(anyText, (text) => assert.equal(readAmidst(texts, Buffer.from(text)), text)),
      { numRuns: 2000 },
    )
  })

  it('reads bytes that are not UTF-8 as Node does', () => {
    const texts = new CommonTexts()
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 8 }), (bytes) => {
        assert.equal(readAmidst(texts, bytes), Buffer.from(bytes).toString('utf8'))
      }),
      { numRuns: 2000 },
    )
  })

  it('does not confuse a text with another one whose characters are its bytes', () => {
    const texts = new CommonTexts()
    for (const text of ['\u00C3\u00A9', 'é', '\u00C3\u00A9'])
      assert.equal(readAmidst(texts, Buffer.from(text)), text)
  })

  it('reads more different texts than it can store', () => {
    const texts = new CommonTexts()
    const names = Array.from({ length: 20_000 }, (_, i) => `node-${i}`)
    for (let round = 0; round < 2; round++)
      for (const name of names) assert.equal(readAmidst(texts, Buffer.from(name)), name)
  })
})
