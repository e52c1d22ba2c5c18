// Laws of Sysctl, run on the model and on the kernel.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Sysctl } from '../../src/kernel/index.js'
import { rejectsWith } from './law.js'

/** A setting of every network namespace. */
const setting = 'net/ipv4/conf/all/arp_ignore'

export function sysctlContract(subject: string, open: () => Sysctl): void {
  describe(`${subject}: Sysctl`, () => {
    it('reads what was written, without the line end', async () => {
      const sysctl = open()
      for (const value of ['1', '2', '0']) {
        await sysctl.write(setting, value)
        assert.equal(await sysctl.read(setting), value)
      }
    })
    it('reads undefined for a setting that the kernel lacks; a write is ENOENT', async () => {
      const sysctl = open()
      assert.equal(await sysctl.read('net/ipv4/no_such_setting'), undefined)
      await rejectsWith(sysctl.write('net/ipv4/no_such_setting', '1'), 'ENOENT')
    })
    it('EINVAL for a value that is not a number', async () => {
      const sysctl = open()
      const before = await sysctl.read(setting)
      await rejectsWith(sysctl.write(setting, 'many'), 'EINVAL')
      assert.equal(await sysctl.read(setting), before)
    })
  })
}
