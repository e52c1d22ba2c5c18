// Detection of a read-only sysfs mount in /proc/self/mounts.
import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { isSysfsReadOnly } from '../../../src/host/index.js'

const proc = 'proc /proc proc rw,nosuid,nodev,noexec,relatime 0 0'

describe('isSysfsReadOnly', () => {
  let folder: string
  before(async () => (folder = await mkdtemp(join(tmpdir(), 'viaduct-mounts-'))))
  after(() => rm(folder, { recursive: true }))

  const cases: readonly (readonly [name: string, lines: readonly string[], isReadOnly: boolean])[] = [
    ['read-only', [proc, 'sysfs /sys sysfs ro,nosuid,nodev,noexec,relatime 0 0'], true],
    ['writable', [proc, 'sysfs /sys sysfs rw,nosuid,nodev,noexec,relatime 0 0'], false],
    ['options that only contain the word', [proc, 'sysfs /sys sysfs rw,errors=remount-ro 0 0'], false],
    ['the first of two counts', ['sysfs /sys sysfs rw 0 0', 'sysfs /mnt/sys sysfs ro 0 0'], false],
    ['other read-only file systems', ['/dev/sda1 / ext4 ro 0 0', proc], false],
  ]
  for (const [name, lines, isReadOnly] of cases) {
    it(name, async () => {
      const file = join(folder, 'mounts')
      await writeFile(file, `${lines.join('\n')}\n`)
      assert.equal(await isSysfsReadOnly(file), isReadOnly)
    })
  }

  it('is false if the file cannot be read', async () => {
    assert.equal(await isSysfsReadOnly(join(folder, 'absent')), false)
  })
})
