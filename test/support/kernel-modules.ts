import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const modprobeSetting = '/proc/sys/kernel/modprobe'

/**
 * For the guest. During `work` the kernel loads no module whose name matches `patterns`, which have the syntax of `case` in sh. Modules
 * that are loaded stay.
 */
export async function withoutModules(patterns: string, work: () => Promise<void>): Promise<void> {
  const modprobe = (await readFile(modprobeSetting, 'utf8')).trim()
  const folder = await mkdtemp(join(tmpdir(), 'viaduct-modprobe-'))
  const script = join(folder, 'modprobe')
  const lines = ['#!/bin/sh', `case "$*" in ${patterns}) exit 1 ;; esac`, `exec ${modprobe} "$@"`, '']
  await writeFile(script, lines.join('\n'), { mode: 0o755 })
  await writeFile(modprobeSetting, script)
  try {
    await work()
  } finally {
    await writeFile(modprobeSetting, modprobe)
    await rm(folder, { recursive: true })
  }
}

const show =
  'mkdir -p /run/lists; ln -sfn /run/guest/kernel/lib/modules /run/lists/modules; ' +
  'mount -t overlay none -o lowerdir=/run/lists:/usr/lib /usr/lib; '

/** For the guest, whose modules are in a folder that only modprobe knows: a wrapper that shows a program the folder as /lib/modules. */
export const withModuleLists: readonly string[] = [
  'unshare',
  '--mount',
  'sh',
  '-ec',
  `${show}exec "$@"`,
  'sh',
]

/** The same, where it looks as if no module may be loaded any more: the real switch cannot be turned back. */
export const withLockedModules: readonly string[] = [
  'unshare',
  '--mount',
  'sh',
  '-ec',
  `${show}echo 1 > /run/locked; mount --bind /run/locked /proc/sys/kernel/modules_disabled; exec "$@"`,
  'sh',
]
