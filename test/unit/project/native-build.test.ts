// The addon has two builds, CMakeLists.txt and binding.gyp. What they build is in lists that both read (docs/adr/0008).
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { treeFiles, treeText } from '../../support/tree.js'

const lists = treeFiles(/^native\/[^/]+\.txt$/).toSorted()
const gyp: unknown = JSON.parse(treeText('binding.gyp'))

/** The texts of a field, at any depth. */
function textsOf(value: unknown, field: string): readonly string[] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([name, inner]) =>
    name === field && Array.isArray(inner) ? inner.map(String) : textsOf(inner, field),
  )
}

describe('the two builds of the addon', () => {
  for (const field of ['sources', 'defines', 'cflags_cc', 'ldflags']) {
    it(`take ${field} from lists alone`, () => {
      const texts = textsOf(gyp, field)
      assert.equal(texts.length, 1)
      assert.match(texts[0] ?? '', /^<!@\(cat(?: native\/\w+\.txt)+\)$/)
    })
  }

  it('read each list', () => {
    const ofGyp = treeText('binding.gyp').match(/native\/\w+\.txt/g) ?? []
    assert.deepEqual(ofGyp.toSorted(), lists)
    const [, ofCmake = ''] = /^foreach\(list (.*)\)$/m.exec(treeText('native/addon.cmake')) ?? []
    assert.deepEqual(
      ofCmake
        .split(' ')
        .map((name) => `native/${name}.txt`)
        .toSorted(),
      lists,
    )
  })

  it('have no option of their own in CMakeLists.txt', () => {
    assert.deepEqual(treeText('CMakeLists.txt').match(/\s-(?:[DWUfmO]|std)[\w=,-]+|CMAKE_CXX_\w+/g), null)
  })
})
