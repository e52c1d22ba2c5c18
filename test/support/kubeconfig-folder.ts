// A folder with a kubeconfig and the files that it names, and clocks that tests move.
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock } from '../../src/clock.js'
import { openLog } from '../../src/log.js'
import type { ClientOptions } from '../../src/api/client-options.js'
import { kubeconfigOptions } from '../../src/api/login/kubeconfig.js'
import { openCertificateWarnings, openKubeconfigWarnings } from '../../src/api/open-client-options.js'

export class KubeconfigFolder {
  readonly root = mkdtempSync(join(tmpdir(), 'viaduct-kubeconfig-'))
  readonly path = this.file('config')
  /** Messages of the log. */
  readonly log: string[] = []
  nowMs = 0
  unixMs = Date.now()

  file(name: string): string {
    return join(this.root, name)
  }

  /** Writes a file. Returns its path. */
  write(name: string, text: string): string {
    writeFileSync(this.file(name), text)
    return this.file(name)
  }

  /** Writes a shell script. Returns its path. */
  writeProgram(name: string, script: string): string {
    const path = this.write(name, `#!/bin/sh\n${script}\n`)
    chmodSync(path, 0o755)
    return path
  }

  /** The lines of a file; empty if it does not exist yet. */
  lines(name: string): readonly string[] {
    if (!existsSync(this.file(name))) return []
    return readFileSync(this.file(name), 'utf8').trimEnd().split('\n')
  }

  /** Writes a kubeconfig whose current context has this cluster and this user. */
  describe(cluster: object, user: object = {}, more: object = {}): void {
    const document = {
      apiVersion: 'v1',
      kind: 'Config',
      'current-context': 'ours',
      contexts: [
        { name: 'other', context: { cluster: 'nowhere', user: 'absent' } },
        { name: 'ours', context: { cluster: 'mine', user: 'me' } },
      ],
      clusters: [{ name: 'mine', cluster }],
      users: [{ name: 'me', user }],
      ...more,
    }
    this.write('config', JSON.stringify(document))
  }

  async open(master = ''): Promise<ClientOptions> {
    const destination = { write: (line: string) => this.log.push(JSON.parse(line).msg) }
    const log = openLog({ format: 'json', verbosity: 0, destination, clock: { unixMs: () => 0 } })
    return await kubeconfigOptions(
      { path: this.path, master },
      {
        environment: { PATH: process.env['PATH'], FROM_AGENT: 'yes' },
        readFile: (path) => readFileSync(path, 'utf8'),
        clock: { ...systemClock, now: () => this.nowMs, unixMs: () => this.unixMs },
        warnings: openCertificateWarnings(log),
        changes: openKubeconfigWarnings(log),
      },
    )
  }

  remove(): void {
    rmSync(this.root, { recursive: true })
  }
}
