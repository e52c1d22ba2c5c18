import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { resolveConfig, settings, takeFlag } from '../../../src/config/index.js'

const flags = settings.flatMap(({ flag }) => (flag === undefined ? [] : [flag]))

function repeated(names: readonly string[]): readonly string[] {
  return names.filter((name, index) => names.indexOf(name) !== index)
}

describe('the table of settings', () => {
  const unique: readonly { readonly what: string; readonly names: readonly string[] }[] = [
    { what: 'key', names: settings.map(({ key }) => key) },
    { what: 'field', names: settings.map(({ field }) => field) },
    { what: 'flag', names: flags.map(({ name }) => name) },
  ]
  for (const { what, names } of unique) {
    it(`has each ${what} once`, () => assert.deepEqual(repeated(names), []))
  }

  for (const { name, help } of flags) {
    it(`has a help for --${name} in one line, without the default that --help adds`, () =>
      assert.match(help, /^(?!.*\(default [^)]*\)$)[^\n]+[^.\n]$/u))
  }

  it('gives every setting without a flag a field', () => {
    const unreachable = settings.filter(({ document, flag }) => document === undefined && flag === undefined)
    assert.deepEqual(unreachable, [])
  })

  const inFiles = settings.filter(({ document, initial }) => document !== undefined && initial !== undefined)
  for (const { type, field, initial } of inFiles) {
    it(`reads the written default of ${field}`, () =>
      assert.deepEqual(type.read(field, type.write(initial)), initial))
  }

  it('lets a later flag win, and joins those that may be repeated', () => {
    const mode = settings.find(({ field }) => field === 'mode')
    const excluded = settings.find(({ field }) => field === 'ipvs.excludeCIDRs')
    assert.ok(mode && excluded)
    const taken = ['10.0.0.0/8', 'fd00::/8'].reduce((input, text) => takeFlag(input, excluded, text), {})
    const config = resolveConfig(takeFlag(takeFlag(taken, mode, 'ipvs'), mode, 'iptables'))
    assert.deepEqual([config.mode, config.ipvs.excludeCIDRs.length], ['iptables', 2])
  })
})
