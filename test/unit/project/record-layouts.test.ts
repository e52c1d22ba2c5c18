// native/records.mjs derives src/kernel/*/layout.ts and the addon's table from native/*/record.h.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { treeRoot } from '../../support/tree.js'

const root = mkdtempSync(join(tmpdir(), 'viaduct-records-'))
const header = join(root, 'native/shop/record.h')
const script = join(root, 'native/records.mjs')
mkdirSync(join(root, 'native/shop'), { recursive: true })
copyFileSync(join(treeRoot, 'native/records.mjs'), script)
after(() => rmSync(root, { recursive: true }))

function run(...args: readonly string[]): { readonly status: number | null; readonly stderr: string } {
  return spawnSync(process.execPath, args, { encoding: 'utf8' })
}

const example = `namespace viaduct::shop {

inline constexpr uint32_t kNoCup = 0xffffffff;  ///< none

/// Not a record.
struct Batch {
  std::span<const uint8_t> texts;
};

enum class Op : uint8_t {
  kAddTea = 1,  ///< green
  kDropTea = 2,
};

enum Invert : uint16_t {
  kInvertIn = 0x0001,
  kInvertOutPort = 0x0010,
};

/// One cup; of any size.
struct TeaCupRecord {
  uint8_t address[16];
  uint32_t first_sip;  ///< litres; of water
  uint16_t port;
  Op op;
  uint8_t reserved[1];
};

}  // namespace viaduct::shop
`

describe('native/records.mjs', () => {
  it('has written every layout.ts of this tree', () => {
    const { status, stderr } = run(join(treeRoot, 'native/records.mjs'), '--check')
    assert.equal(status, 0, stderr)
  })

  it('writes offsets, numbers and bits under the names of TypeScript', () => {
    writeFileSync(header, example)
    assert.equal(run(script).stderr, '')
    const layout = readFileSync(join(root, 'src/kernel/shop/layout.ts'), 'utf8').split('\n\n').slice(1)
    assert.deepEqual(layout, [
      'export const constant = {\n  noCup: 4294967295,\n} as const',
      "export const opNumber = {\n  'add-tea': 1,\n  'drop-tea': 2,\n} as const",
      'export const invertBit = {\n  in: 1,\n  outPort: 16,\n} as const',
      'export const teaCupLayout = {\n  size: 24,\n  address: 0,\n  firstSip: 16,\n  port: 20,\n  op: 22,\n} as const satisfies RecordLayout\n',
    ])
  })

  it('writes the C++ expression of each member into the table', () => {
    writeFileSync(header, example)
    const table = join(root, 'build/layout_table.h')
    assert.equal(run(script, '--table', table).stderr, '')
    const rows = readFileSync(table, 'utf8')
      .split('\n')
      .filter((line) => line.startsWith('    {'))
    assert.deepEqual(
      rows.map((row) => row.trim()),
      [
        '{"shop", "constant", "noCup", static_cast<size_t>(shop::kNoCup)},',
        '{"shop", "opNumber", "add-tea", static_cast<size_t>(shop::Op::kAddTea)},',
        '{"shop", "opNumber", "drop-tea", static_cast<size_t>(shop::Op::kDropTea)},',
        '{"shop", "invertBit", "in", static_cast<size_t>(shop::kInvertIn)},',
        '{"shop", "invertBit", "outPort", static_cast<size_t>(shop::kInvertOutPort)},',
        '{"shop", "teaCupLayout", "size", static_cast<size_t>(sizeof(shop::TeaCupRecord))},',
        '{"shop", "teaCupLayout", "address", static_cast<size_t>(offsetof(shop::TeaCupRecord, address))},',
        '{"shop", "teaCupLayout", "firstSip", static_cast<size_t>(offsetof(shop::TeaCupRecord, first_sip))},',
        '{"shop", "teaCupLayout", "port", static_cast<size_t>(offsetof(shop::TeaCupRecord, port))},',
        '{"shop", "teaCupLayout", "op", static_cast<size_t>(offsetof(shop::TeaCupRecord, op))},',
      ],
    )
  })

  it('--check fails after a header has changed', () => {
    writeFileSync(header, example)
    assert.equal(run(script).status, 0)
    writeFileSync(header, example.replace('uint16_t port', 'uint16_t gate'))
    const { status, stderr } = run(script, '--check')
    assert.equal(status, 1)
    assert.match(stderr, /src\/kernel\/shop\/layout\.ts differs from native\/shop\/record\.h/)
  })

  const refused = [
    [
      'a constant of another type',
      'constexpr uint32_t kNoCup',
      'constexpr int kNoCup',
      /record\.h:3: a constant is "inline constexpr uint32_t kName = NUMBER;"/,
    ],
    [
      'a misaligned field',
      'uint8_t reserved[1]',
      'uint32_t late',
      /record\.h:26: late is at byte 23: add reserved bytes/,
    ],
    [
      'an end without padding',
      '  uint8_t reserved[1];\n',
      '',
      /record\.h:25: TeaCupRecord ends at byte 23: add 1 reserved/,
    ],
    ['an unknown type', 'uint16_t port', 'size_t port', /record\.h:24: a field is of char, /],
    ['an initializer', 'uint16_t port', 'uint16_t port = 0', /record\.h:24: a field is "TYPE NAME"/],
    [
      'an enumerator without a number',
      'kDropTea = 2',
      'kDropTea',
      /record\.h:12: an enumerator is "kName = NUMBER"/,
    ],
    [
      'an enum on one line',
      'enum Invert : uint16_t {',
      'enum Other { kA };',
      /record\.h:15: a record or an enum/,
    ],
    [
      'a record without fields',
      /cup; of any size\.\n/,
      'cup\nstruct NoRecord {\n};\n',
      /record\.h:22: a record or an enum has/,
    ],
  ] as const
  for (const [what, from, to, message] of refused) {
    it(`names the line of ${what}`, () => {
      writeFileSync(header, example.replace(from, to))
      const { status, stderr } = run(script)
      assert.equal(status, 1)
      assert.match(stderr, message)
    })
  }
})
