import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { countCpus } from '../../../src/host/index.js'

describe('countCpus', () => {
  let folder: string
  before(async () => (folder = await mkdtemp(join(tmpdir(), 'viaduct-cpus-'))))
  after(() => rm(folder, { recursive: true }))

  const cases: readonly (readonly [string, number])[] = [
    ['0\n', 1],
    ['0-1\n', 2],
    ['0-3,8-11,15\n', 9],
    ['\n', availableParallelism()],
    ['no list', availableParallelism()],
  ]
  for (const [text, count] of cases) {
    it(`reads ${JSON.stringify(text)}`, async () => {
      const file = join(folder, 'online')
      await writeFile(file, text)
      assert.equal(await countCpus(file), count)
    })
  }

  it('counts the usable CPUs if there is no such file', async () => {
    assert.equal(await countCpus(join(folder, 'none')), availableParallelism())
  })
})
