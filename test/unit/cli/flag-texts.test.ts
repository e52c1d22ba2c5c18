import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { flags, flagTexts } from '../../../src/cli/index.js'
import { resolveConfig } from '../../../src/config/index.js'

const blank = new Set([
  'cluster-cidr',
  'config',
  'detect-local-mode',
  'feature-gates',
  'hostname-override',
  'ipvs-exclude-cidrs',
  'ipvs-run-estimation',
  'ipvs-scheduler-flags',
  'kubeconfig',
  'manifests',
  'master',
  'nodeport-addresses',
  'pod-bridge-interface',
  'pod-interface-name-prefix',
  'proxy-mode',
  'show-hidden-metrics-for-version',
  'vmodule',
  'write-config-to',
])

describe('flagTexts', () => {
  it('has a text for every flag, also where none was given', () => {
    assert.deepEqual(Object.keys(flagTexts([])).toSorted(), flags.map(({ name }) => name).toSorted())
  })

  for (const { name, take } of flags.filter((flag) => !blank.has(flag.name))) {
    it(`gives the default of --${name}`, () => {
      assert.deepEqual(resolveConfig(take({}, flagTexts([])[name] ?? '')), resolveConfig({}))
    })
  }

  it('is empty for flags without a fixed default', () => {
    const found = Object.entries(flagTexts([])).filter(([, text]) => text === '')
    assert.deepEqual(found.map(([name]) => name).toSorted(), [...blank].toSorted())
  })

  it('joins the values of a flag that may be repeated', () => {
    for (const { name, isAdded } of flags.filter(({ value }) => value !== undefined)) {
      const text = flagTexts([`--${name}=a`, `--${name}=b`])[name]
      assert.equal(text, isAdded ? 'a,b' : 'b', name)
    }
    const added = flags.filter(({ isAdded }) => isAdded).map(({ name }) => name)
    assert.deepEqual(added.toSorted(), [
      'feature-gates',
      'ipvs-exclude-cidrs',
      'nodeport-addresses',
      'vmodule',
    ])
  })

  it('leaves out user and password of --master', () => {
    assert.equal(flagTexts(['--master=https://me:p@ss@server:6443/a@b'])['master'], 'https://server:6443/a@b')
  })

  it('has the text of the last occurrence', () => {
    const texts = flagTexts(['--v=2', '-v=4', '--masquerade_all', '--cluster-cidr', '10.0.0.0/8'])
    const { v, 'masquerade-all': isAll, 'cluster-cidr': cidr, 'proxy-mode': mode } = texts
    assert.deepEqual([v, isAll, cidr, mode], ['4', 'true', '10.0.0.0/8', ''])
  })
})
