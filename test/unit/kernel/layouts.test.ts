// The addon and this build must have the same packed records (native/*/record.h).
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { checkLayouts, layouts, type Layouts } from '../../../src/kernel/layouts.js'
import { loadAddon } from '../../../src/kernel/loader.js'

/** The layouts in the form of the addon's export: objects instead of modules. */
const whole: Layouts = Object.fromEntries(
  Object.entries(layouts).map(([room, parts]) => [room, { ...parts }]),
)

function withPart(part: string, changed: Readonly<Record<string, number>>): Layouts {
  return { ...whole, ipvs: { ...whole['ipvs'], [part]: changed } }
}

describe('checkLayouts', () => {
  it('finds every layout and number of this build in the addon, and no other', () => {
    const { layout } = loadAddon({ addonPath: process.env['VIADUCT_ADDON'], moduleUrl: import.meta.url })
    assert.deepEqual(layout, whole)
    checkLayouts(layout)
  })

  const { realServerLayout, opNumber } = layouts.ipvs
  const cases = [
    [
      'a field at another byte',
      withPart('realServerLayout', { ...realServerLayout, port: 26 }),
      /ipvs realServerLayout\.port is 26 in the addon and 28 in this build/,
    ],
    [
      'another size',
      withPart('realServerLayout', { ...realServerLayout, size: 44 }),
      /ipvs realServerLayout\.size is 44 in the addon and 40 in this build/,
    ],
    [
      'an additional field',
      withPart('realServerLayout', { ...realServerLayout, zone: 37 }),
      /ipvs realServerLayout\.zone is 37 in the addon and absent in this build/,
    ],
    [
      'another number of an operation',
      withPart('opNumber', { ...opNumber, 'add-real-server': 9 }),
      /ipvs opNumber\.add-real-server is 9 in the addon and 4 in this build/,
    ],
    ['an absent record', {}, /binding failureLayout\.size is absent in the addon and 20 in this build/],
  ] as const
  for (const [what, native, message] of cases) {
    it(`throws BugError with the first difference: ${what}`, () => {
      assert.throws(() => checkLayouts(native), { name: 'BugError', message })
    })
  }
})
