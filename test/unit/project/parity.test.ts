// docs/parity.md lists kube-proxy's features with their place in the tree and their tests. The list is complete, and each test mentions
// its feature.
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { loadAll } from 'js-yaml'
import { Registry } from 'prom-client'
import { flags } from '../../../src/cli/index.js'
import { formatConfig, resolveConfig } from '../../../src/config/index.js'
import {
  openHealthcheckMetrics,
  openKernelMetrics,
  openLocalhostNodePortMetrics,
  openMetrics,
  openProcessMetrics,
  LoopDelays,
} from '../../../src/metrics/index.js'
import { ManualClock } from '../../support/manual-clock.js'
import { treeFiles, treeRoot, treeText } from '../../support/tree.js'

interface Row {
  /** The names of each feature: a flag, its field or both; one name for all others. */
  readonly things: readonly (readonly string[])[]
  readonly state: string
  readonly where: readonly string[]
  readonly tests: readonly TestFile[]
}

interface TestFile {
  readonly path: string
  /** Texts that the file contains. Empty: the file mentions one of the features. */
  readonly cases: readonly string[]
}

const sections = new Map(
  treeText('docs/parity.md')
    .split(/^## /mu)
    .map((text) => [text.slice(0, text.indexOf('\n')), rowsOf(text)]),
)
const allRows = [...sections.values()].flat()

function rowsOf(text: string): readonly Row[] {
  const lines = text.split('\n').filter((line) => line.startsWith('|'))
  return lines.slice(2).map((line) => {
    const cells = line.split('|').slice(1, -1)
    const [state = '', where = '', tested = ''] = cells.slice(-3).map((cell) => cell.trim())
    return { things: thingsOf(cells.slice(0, -3)), state, where: quoted(where), tests: testsOf(tested) }
  })
}

function thingsOf([first = '', second = '']: readonly string[]): Row['things'] {
  const rule = /^ ([FQ]-\d+) /u.exec(first)?.[1]
  if (rule !== undefined) return [[rule]]
  const [names, others] = [quoted(first), quoted(second)]
  const most = names.length > others.length ? names : others
  return most.map((_, index) => [names[index], others[index]].filter((name) => name !== undefined))
}

function quoted(cell: string): readonly string[] {
  return [...cell.matchAll(/`([^`]+)`/gu)].map(([, inside = '']) => inside)
}

function testsOf(cell: string): readonly TestFile[] {
  return [...cell.matchAll(/`([^`]+)`([^`]*)/gu)].map(([, path = '', behind = '']) => ({
    path,
    cases: [...behind.matchAll(/\*([^*]+)\*/gu)].map(([, words = '']) => words),
  }))
}

function isMentioned(text: string, name: string): boolean {
  const escaped = name.replaceAll(/[.*/]/gu, String.raw`\$&`)
  if (name.startsWith('--')) return new RegExp(String.raw`${escaped}(?![\w-])`, 'u').test(text)
  if (name.startsWith('/')) return new RegExp(String.raw`${escaped}(?![\w/])`, 'u').test(text)
  const last = name.slice(name.lastIndexOf('.') + 1)
  // A field in code has a unit as a suffix, a histogram the suffix of a sample.
  return new RegExp(String.raw`\b${last}(?:Ms|Seconds|_count|_sum|_bucket|_)?\b`, 'iu').test(text)
}

function mentions({ path, cases }: TestFile, thing: readonly string[]): boolean {
  return cases.length > 0 || thing.some((name) => isMentioned(treeText(path), name))
}

/** F-080, F-081 and so on. */
function numbered(
  prefix: string,
  [first, last]: readonly [number, number],
  digits: number,
): readonly string[] {
  const numbers = Array.from({ length: last - first + 1 }, (_, index) => first + index)
  return numbers.map((number) => prefix + String(number).padStart(digits, '0'))
}

/** The features in the rows of a section; with `isHere` without rows that say "not here". */
function namesIn(section: string, { isHere = false } = {}): readonly string[] {
  const rows = sections.get(section) ?? []
  const chosen = isHere ? rows.filter(({ state }) => !state.startsWith('not here')) : rows
  return chosen.flatMap(({ things }) => things.flat())
}

function leavesOf(value: unknown, path = ''): readonly string[] {
  const isMapping = typeof value === 'object' && value !== null && !Array.isArray(value)
  if (!isMapping || Object.keys(value).length === 0) return [path]
  return Object.entries(value).flatMap(([name, inner]) =>
    leavesOf(inner, path === '' ? name : `${path}.${name}`),
  )
}

function fieldsOfFiles(): readonly [kubeProxy: readonly string[], own: readonly string[]] {
  const config = resolveConfig({ manifests: 'm', ipvs: { runEstimation: true }, udpIdleMs: 1 })
  const [kubeProxy, own] = loadAll(formatConfig(config)).map((document) => leavesOf(document))
  assert.ok(kubeProxy && own)
  return [kubeProxy.filter((path) => !['apiVersion', 'kind'].includes(path)), own]
}

async function metricNames(): Promise<readonly string[]> {
  const registry = new Registry()
  openMetrics(registry)
  openProcessMetrics(registry, {
    build: { version: '0.0.0', commit: 'unknown', featureGates: { AllowServiceExternalIPs: true } },
    clock: new ManualClock(),
    log: {},
    loopDelays: new LoopDelays(),
  })
  openKernelMetrics(registry, {
    calls: () => new Map(),
    packets: async () => await Promise.resolve(undefined),
    clock: new ManualClock(),
  })
  openLocalhostNodePortMetrics(registry, () => ({}))
  const checks = (await openHealthcheckMetrics().metrics()).matchAll(/^# TYPE (\w+) /gmu)
  const names = registry.getMetricsAsArray().map(({ name }) => name)
  return [...names, ...[...checks].map(([, name = '']) => name)].filter(
    (name) => !name.startsWith('viaduct_'),
  )
}

/** The matches of the pattern's first or second group in files of src. */
function foundInSources(files: RegExp, pattern: RegExp): readonly string[] {
  const texts = treeFiles(files).map((path) => treeText(path))
  const found = texts.flatMap((text) =>
    [...text.matchAll(pattern)].map(([, one, other]) => one ?? other ?? ''),
  )
  return [...new Set(found)]
}

function assertSame(documented: readonly string[], code: readonly string[]): void {
  assert.deepEqual([...new Set(documented)].toSorted(), [...new Set(code)].toSorted())
}

describe('docs/parity.md', () => {
  const [kubeProxyFields, ownFields] = fieldsOfFiles()
  const kubeProxyFlags = flags
    .filter(({ setting }) => !ownFields.includes(setting.field))
    .map(({ name }) => `--${name}`)

  it("has a row for each flag and each field of kube-proxy's, and no other", () =>
    assertSame(namesIn('Flags and fields'), [...kubeProxyFlags, '--version', '--help', ...kubeProxyFields]))

  it('has only flags and fields that the tests of flags and files mention', () => {
    const [ofFlags, ofFields] = ['cli/parse-arguments', 'config/config-file'].map((name) =>
      treeText(`test/unit/${name}.test.ts`),
    )
    const unread = [
      ...kubeProxyFlags.filter(
        (flag) => !isMentioned((ofFlags ?? '').replace('proxy_mode', 'proxy-mode'), flag),
      ),
      ...kubeProxyFields.filter((field) => !isMentioned(ofFields ?? '', field)),
    ]
    assert.deepEqual(unread, [])
  })

  it('has a row for each page', () =>
    assertSame(namesIn('Pages'), foundInSources(/^src\/server\/.*-pages\.ts$/u, /'(\/[a-zA-Z/]+)'/gu)))

  it("has a row for each metric that is not Viaduct's own", async () =>
    assertSame(namesIn('Metrics', { isHere: true }), await metricNames()))

  it('has a row for each Event', () =>
    assertSame(
      namesIn('Events', { isHere: true }),
      foundInSources(/^src\/.*\.ts$/u, /reason: '(\w+)'|'(FailedTo\w+)'/gu),
    ))

  it('has a row for each rule of the process life cycle and for each quirk', () => {
    assert.deepEqual(namesIn('The life of the process'), numbered('F-', [80, 125], 3))
    assert.deepEqual(namesIn('Quirks'), numbered('Q-', [1, 23], 2))
  })

  it('has a state and a place for each feature', () => {
    const shape = /^(?:as kube-proxy(?:[,:;] .+)?|(?:differs|not here): .+)$/u
    const vague = allRows.filter(
      ({ state, where, tests }) =>
        !shape.test(state) || (!state.startsWith('not here') && (where.length === 0 || tests.length === 0)),
    )
    assert.deepEqual(vague, [])
  })

  it('names files and folders that exist', () => {
    const paths = allRows.flatMap(({ where, tests }) => [...where, ...tests.map(({ path }) => path)])
    assert.deepEqual(
      paths.filter((path) => !/^(?:src|test)\//u.test(path) || !existsSync(join(treeRoot, path))),
      [],
    )
  })

  it('names at least one test per feature, and each test mentions its feature', () => {
    const wrong = allRows.flatMap(({ things, tests }) => {
      return [
        ...tests
          .filter((file) => !things.some((thing) => mentions(file, thing)))
          .map(({ path }) => [path, things]),
        ...tests.flatMap(({ path, cases }) => cases.filter((words) => !treeText(path).includes(words))),
        ...things.filter((thing) => tests.length > 0 && !tests.some((file) => mentions(file, thing))),
      ]
    })
    assert.deepEqual(wrong, [])
  })

  it('names a case in each test of a rule', () => {
    const rows = ['The life of the process', 'Quirks'].flatMap((section) => sections.get(section) ?? [])
    assert.deepEqual(
      rows.flatMap(({ tests }) => tests).filter(({ cases }) => cases.length === 0),
      [],
    )
  })
})
