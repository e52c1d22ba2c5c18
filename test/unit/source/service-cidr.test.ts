import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { parseManifest } from '../../../src/source/manifests/parse.js'
import { cidr } from '../../support/routes.js'

function read(text: string) {
  return parseManifest('a.yaml', new TextEncoder().encode(text))
}

function manifest(rest: string, version = 'v1'): string {
  return `apiVersion: networking.k8s.io/${version}\nkind: ServiceCIDR\nmetadata: {name: kubernetes}\n${rest}\n`
}

const good: readonly (readonly [rest: string, cidrs: readonly string[]])[] = [
  ['spec: {cidrs: [10.96.0.0/16]}', ['10.96.0.0/16']],
  ['spec: {cidrs: ["fd00:96::/112", 10.96.0.7/16]}', ['fd00:96::/112', '10.96.0.0/16']],
]

const wrong: readonly (readonly [rest: string, problem: string])[] = [
  ['', ': spec: is missing'],
  ['spec: {}', ': spec.cidrs: is missing'],
  ['spec: {cidrs: 10.96.0.0/16}', ': spec.cidrs: must be a list of networks, not the text "10.96.0.0/16"'],
  ['spec: {cidrs: []}', ': spec.cidrs: must be one network, or one of each IP family'],
  [
    'spec: {cidrs: [10.96.0.0/16, 10.97.0.0/16]}',
    ': spec.cidrs: must be one network, or one of each IP family',
  ],
  [
    'spec: {cidrs: [10.96.0.0/16, "fd00::/112", 10.97.0.0/16]}',
    ': spec.cidrs: must be one network, or one of each IP family',
  ],
  [
    'spec: {cidrs: [10.96.0.0/16, fd00]}',
    ': spec.cidrs[1]: must be a network such as 10.96.0.0/16 or fd00:10:96::/112, not the text "fd00"',
  ],
  [
    'spec: {cidrs: [10.96.0.0/33]}',
    ': spec.cidrs[0]: must be a network such as 10.96.0.0/16 or fd00:10:96::/112, not the text "10.96.0.0/33"',
  ],
]

describe('parseManifest: ServiceCIDR', () => {
  for (const [rest, cidrs] of good) {
    for (const version of ['v1', 'v1beta1']) {
      it(`reads ${rest} of ${version}`, () => {
        const object = { kind: 'ServiceCIDR', namespace: '', name: 'kubernetes', cidrs: cidrs.map(cidr) }
        const reading = read(manifest(rest, version))
        assert.ok('objects' in reading)
        assert.deepEqual([...reading.objects.values()], [object])
      })
    }
  }

  it('reads a list as the API server answers it', () => {
    const list = 'apiVersion: networking.k8s.io/v1\nkind: ServiceCIDRList\nitems:\n'
    const reading = read(`${list}- {metadata: {name: a}, spec: {cidrs: [10.96.0.0/16]}}\n`)
    assert.ok('objects' in reading)
    assert.deepEqual([...reading.objects.keys()], ['ServiceCIDR /a'])
  })

  for (const [rest, problem] of wrong) {
    it(`refuses ${JSON.stringify(rest)}`, () => {
      const reading = read(manifest(rest))
      assert.ok('problems' in reading)
      assert.deepEqual(
        reading.problems.map(({ message }) => message),
        [`a.yaml: document 1 (ServiceCIDR kubernetes)${problem}`],
      )
    })
  }
})
