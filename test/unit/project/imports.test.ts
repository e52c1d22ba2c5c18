import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { circlesOf, importsOf, objection, roomOf } from '../../support/import-graph.js'
import { treeFiles, treeText } from '../../support/tree.js'

const sources = treeFiles(/^src\/.*\.ts$/)
const imports = sources.flatMap((path) => importsOf(path, treeText(path)))

describe('the import rule', () => {
  const allowed = [
    ['src/model/tracker.ts', 'src/source/index.ts'],
    ['src/source/open.ts', 'src/api/index.ts'],
    ['src/events/event-sender.ts', 'src/api/index.ts'],
    ['src/modes/ipvs/compile/compile.ts', 'src/routing/index.ts'],
    ['src/modes/ipvs/compile/compile.ts', 'src/modes/ipvs/compile/scheduling.ts'],
    ['src/layers/ipvs/tables/ledger.ts', 'src/kernel/index.ts'],
    ['src/modes/ipvs/mode.ts', 'src/engine/index.ts'],
    ['src/modes/ipvs/mode.ts', 'src/layers/shared/index.ts'],
    ['src/layers/relay/relay-table.ts', 'src/layers/vips/index.ts'],
    ['src/engine/bounded-runner.ts', 'src/log.ts'],
    ['src/source/manifests/parse.ts', 'src/source/objects.ts'],
    ['src/agent.ts', 'src/agent/index.ts'],
    ['src/agent/modes.ts', 'src/modes/ipvs/index.ts'],
    ['src/model/tracker.ts', 'src/metrics/index.ts'],
  ] as const
  for (const [from, to] of allowed) {
    it(`lets ${from} import ${to}`, () => assert.equal(objection({ from, to }), undefined))
  }

  const forbidden = [
    ['src/model/tracker.ts', 'src/routing/index.ts', 'against the flow'],
    ['src/model/tracker.ts', 'src/api/index.ts', 'against the flow'],
    ['src/api/api-client.ts', 'src/source/index.ts', 'against the flow'],
    ['src/events/event-sender.ts', 'src/source/index.ts', 'against the flow'],
    ['src/routing/route.ts', 'src/kernel/index.ts', 'against the flow'],
    ['src/engine/synchronizer.ts', 'src/modes/ipvs/index.ts', 'against the flow'],
    ['src/kernel/addon.ts', 'src/config/index.ts', 'against the flow'],
    ['src/modes/ipvs/mode.ts', 'src/modes/iptables/index.ts', 'against the flow'],
    ['src/layers/shared/former-chains.ts', 'src/modes/iptables/index.ts', 'against the flow'],
    ['src/layers/shared/after-sync.ts', 'src/layers/vips/index.ts', 'against the flow'],
    ['src/modes/ipvs/compile/compile.ts', 'src/modes/ipvs/mode.ts', 'what drives it'],
    ['src/modes/ipvs/compile/compile.ts', 'src/engine/index.ts', 'what drives it'],
    ['src/engine/synchronizer.ts', 'src/model/tracker.ts', 'index.ts'],
    ['src/log.ts', 'src/config/index.ts', 'root files'],
    ['src/engine/synchronizer.ts', 'test/support/tree.ts', 'never imports tests'],
    ['src/kernel/open-kernel.ts', 'test/model/index.ts', 'never imports tests'],
    ['src/modes/ipvs/mode.ts', 'src/engine/testing.ts', 'for tests'],
    ['src/engine/family.ts', 'src/engine/testing.ts', 'for tests'],
    ['src/engine/synchronizer.ts', 'src/agent.ts', 'nothing imports a program'],
    ['src/engine/synchronizer.ts', 'src/agent/index.ts', 'against the flow'],
  ] as const
  for (const [from, to, reason] of forbidden) {
    it(`forbids ${from} to import ${to}`, () =>
      assert.match(objection({ from, to }) ?? '', new RegExp(reason)))
  }

  it('finds imports, re-exports and dynamic imports', () => {
    const text =
      "import { a } from './b.js'\nimport type {\n  T,\n} from './t.js'\nexport * from '../c/index.js'\nawait import('node:fs')\nimport './d.js'"
    const found = importsOf('src/x/a.ts', text)
    assert.deepEqual(
      found.map((edge) => edge.to),
      ['src/x/b.ts', 'src/x/t.ts', 'src/c/index.ts', 'node:fs', 'src/x/d.ts'],
    )
    assert.deepEqual(
      found.filter((edge) => edge.isType).map((edge) => edge.to),
      ['src/x/t.ts'],
    )
  })

  it('finds each circle once, with all that belongs to it', () => {
    const edges = ['ab', 'bc', 'cd', 'cb', 'db', 'de', 'ef', 'fe', 'gg'].map((pair) => ({
      from: pair.charAt(0),
      to: pair.charAt(1),
    }))
    assert.deepEqual(
      circlesOf(edges).map((circle) => circle.join('')),
      ['ef', 'bcd'],
    )
    assert.deepEqual(circlesOf(edges.filter(({ to }) => to !== 'b' && to !== 'e')), [])
  })
})

describe('the tree', () => {
  it('has sources that import each other', () => assert.ok(imports.length > sources.length))

  it('has no import against the rule', () => {
    assert.deepEqual(
      imports.map(objection).filter((sentence) => sentence !== undefined),
      [],
    )
  })

  it('has no import of a missing file', () => {
    const broken = imports.filter(({ to }) => to.startsWith('src/') && !sources.includes(to))
    assert.deepEqual(broken, [])
  })

  it('has no circle of files, of types or of values', () => {
    assert.deepEqual(circlesOf(imports), [])
  })

  it('has no circle of rooms, of types or of values', () => {
    const between = imports.map(({ from, to }) => ({ from: roomOf(from) ?? from, to: roomOf(to) ?? to }))
    assert.deepEqual(circlesOf(between), [])
  })

  it('has an index.ts for every room, with the five lines of its head', () => {
    const rooms = new Set(sources.map(roomOf).filter((room) => room !== undefined))
    for (const room of rooms) {
      const opening = treeText(`${room}/index.ts`).split('\nexport')[0] ?? ''
      for (const word of ['In: ', 'Out: ', 'Never: ', 'Owner of: ', 'Read next: ']) {
        assert.ok(opening.includes(word), `${room}/index.ts does not say "${word}" before its first export`)
      }
    }
  })

  it('names the addon file only in its two loaders', () => {
    const naming = sources.filter((path) => /\.node['"`]/.test(treeText(path)))
    const loading = ['src/kernel/addon.ts', 'src/kernel/loader.ts']
    assert.deepEqual(
      naming.filter((path) => !loading.includes(path)),
      [],
    )
  })

  it('includes napi.h only in native/binding', () => {
    const including = treeFiles(/^native\/.*\.(h|cc)$/).filter((path) =>
      /#include <napi\.h>/.test(treeText(path)),
    )
    assert.ok(including.length > 0)
    assert.deepEqual(
      including.filter((path) => !path.startsWith('native/binding/')),
      [],
    )
  })

  it('starts no process from src, except the exec plugin of a kubeconfig', () => {
    const starting = imports.filter(({ to }) => to === 'node:child_process' || to === 'child_process')
    assert.deepEqual(
      starting.map(({ from }) => from),
      ['src/api/login/exec-plugin.ts'],
    )
  })
})
