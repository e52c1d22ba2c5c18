import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import * as fc from 'fast-check'
import { FrameError, LengthSplitter, LineSplitter, type Splitter } from '../../../src/api/formats/frames.js'
import { frame } from '../../support/api-writer.js'

const kinds = [
  {
    name: 'LengthSplitter',
    open: (largest?: number): Splitter => new LengthSplitter(largest),
    write: frame,
    frames: fc.array(fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes))),
  },
  {
    name: 'LineSplitter',
    open: (largest?: number): Splitter => new LineSplitter(largest),
    write: (bytes: Buffer) => Buffer.concat([bytes, Buffer.from('\n')]),
    frames: fc.array(
      fc
        .uint8Array({ minLength: 1, maxLength: 40 })
        .map((bytes) => Buffer.from(bytes.map((byte) => (byte === 0x0a ? 0 : byte)))),
    ),
  },
]

/** Frames as hex, then the error that ended them. */
function readAll(splitter: Splitter, chunks: readonly Buffer[]): string[] {
  const read: string[] = []
  try {
    for (const chunk of chunks) for (const one of splitter.push(chunk)) read.push(one.toString('hex'))
    splitter.end()
  } catch (error) {
    assert.ok(error instanceof FrameError)
    read.push(error.message)
  }
  return read
}

/** `bytes` in pieces of these sizes, repeated. */
function cut(bytes: Buffer, sizes: readonly number[]): Buffer[] {
  const chunks: Buffer[] = []
  for (let at = 0, turn = 0; at < bytes.length; turn++) {
    const size = sizes[turn % sizes.length] ?? 1
    chunks.push(bytes.subarray(at, at + size))
    at += size
  }
  return chunks
}

for (const { name, open, write, frames } of kinds) {
  describe(name, () => {
    const sizes = fc.array(fc.integer({ min: 1, max: 60 }), { minLength: 1 })

    it('returns the same frames for any pieces of the stream', () => {
      fc.assert(
        fc.property(frames, sizes, (written, cuts) => {
          const bytes = Buffer.concat(written.map(write))
          assert.deepEqual(
            readAll(open(), cut(bytes, cuts)),
            written.map((one) => one.toString('hex')),
          )
        }),
      )
    })

    it('refuses the same frame, after the same good ones, for any pieces of the stream', () => {
      const bytes = Buffer.concat([3, 2, 9, 1].map((size) => write(Buffer.alloc(size, 0x61))))
      const expected = readAll(open(8), [bytes])
      assert.equal(expected.length, 3)
      assert.match(expected.at(-1) ?? '', /more than 8/u)
      fc.assert(fc.property(sizes, (cuts) => assert.deepEqual(readAll(open(8), cut(bytes, cuts)), expected)))
    })

    it('reports a stream that ends within a frame', () => {
      const bytes = write(Buffer.from('abc'))
      assert.deepEqual(readAll(open(), [bytes.subarray(0, 3)]), ['the stream ends within an event'])
    })
  })
}

describe('LineSplitter', () => {
  it('ignores empty lines', () =>
    assert.deepEqual(readAll(new LineSplitter(), [Buffer.from('\n\na\n')]), ['61']))
})
