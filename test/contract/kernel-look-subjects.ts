// The model and the kernel, for kernel-look.contract.ts.
import { closeSync, constants, mkdtempSync, openSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openModelKernel } from '../model/index.js'
import type { KernelLookSubject } from './kernel-look.contract.js'
import { openRealKernel } from './real-kernel.js'

/** The look of a model kernel. A second of its watches takes 10 ms. */
export function openModelLook(): KernelLookSubject {
  const kernel = openModelKernel()
  const { schedule } = kernel.time
  kernel.time.schedule = (delayMs, wake) => schedule(delayMs / 100, wake)
  return { ...kernel, useLock: () => void kernel.xtNamespace.unlocks++ }
}

/** A wait without a finding lasts 20 looks, so that some of them include the sets. */
const testPace = { periodMs: 20, longestWaitMs: 400, setsShare: 1 }

/** The look of the kernel, with its own lock file. Other programs of the machine use the default one. */
export function openRealLook(): KernelLookSubject {
  const folder = mkdtempSync(join(tmpdir(), 'viaduct-look-'))
  const file = join(folder, 'lock')
  process.env['XTABLES_LOCKFILE'] = file
  const kernel = openRealKernel({ lookPace: testPace })
  return {
    ...kernel,
    // The system calls of iptables, through another descriptor of the file.
    useLock: () => closeSync(openSync(file, constants.O_RDONLY | constants.O_CREAT, 0o600)),
    close: async () => {
      await kernel.close()
      delete process.env['XTABLES_LOCKFILE']
      rmSync(folder, { recursive: true })
    },
  }
}
