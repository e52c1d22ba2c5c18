// The model and the kernel, for kernel-look.contract.ts.
import { closeSync, constants, mkdtempSync, openSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openModelKernel } from '../model/index.js'
import type { KernelLookSubject } from './kernel-look.contract.js'
import { openRealKernel } from './real-kernel.js'

/** Its seconds are 10 ms long. */
export function openModelLook(): KernelLookSubject {
  const kernel = openModelKernel()
  const { schedule } = kernel.time
  kernel.time.schedule = (delayMs, wake) => schedule(delayMs / 100, wake)
  return { ...kernel, useLock: () => void kernel.xtNamespace.unlocks++ }
}

/** A wait without a finding is 20 looks long, so that it includes looks at the sets. */
const testPace = { periodMs: 20, longestWaitMs: 400, setsShare: 1 }

/** With its own lock file: programs of the whole machine use the default one. */
export function openRealLook(): KernelLookSubject {
  const folder = mkdtempSync(join(tmpdir(), 'viaduct-look-'))
  const file = join(folder, 'lock')
  process.env['XTABLES_LOCKFILE'] = file
  const kernel = openRealKernel({ lookPace: testPace })
  return {
    ...kernel,
    // The system calls of iptables, in a process that has other descriptors of the file.
    useLock: () => closeSync(openSync(file, constants.O_RDONLY | constants.O_CREAT, 0o600)),
    close: async () => {
      await kernel.close()
      delete process.env['XTABLES_LOCKFILE']
      rmSync(folder, { recursive: true })
    },
  }
}
