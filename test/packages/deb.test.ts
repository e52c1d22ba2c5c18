// The Debian package: what lintian says, its files, and an installation, an update, a removal and a purge in a folder as root. The suite
// makes it (scripts/packages/deb.mjs).
import assert from 'node:assert/strict'
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { flags } from '../../src/cli/index.js'
import { commands, optionsOf } from '../../src/commands/index.js'
import { version as ownVersion } from '../../src/version.js'
import { mustRun, runToEnd } from '../support/processes.js'
import { treeText } from '../support/tree.js'

const made = process.env['VIADUCT_DEB_PACKAGE']
assert.ok(made !== undefined, 'VIADUCT_DEB_PACKAGE is set by the packages suite')
const file = made

describe('the Debian package', { timeout: 120_000 }, () => {
  let root: string
  before(() => {
    root = mkdtempSync(join(tmpdir(), 'viaduct-deb-'))
    mkdirSync(join(root, 'var/lib/dpkg/info'), { recursive: true })
    mkdirSync(join(root, 'var/lib/dpkg/updates'))
    writeFileSync(join(root, 'var/lib/dpkg/status'), '')
  })
  after(() => rmSync(root, { recursive: true }))

  /** Runs dpkg on the folder. Maintainer scripts see the folder in DPKG_ROOT. */
  function dpkg(...args: readonly string[]): Promise<string> {
    const options = ['--force-script-chrootless', '--force-depends', '--force-confold']
    return mustRun(['dpkg', `--root=${root}`, `--log=${join(root, 'log')}`, ...options, ...args])
  }

  it('has no error and no warning in lintian', async () => {
    const failOn = '--fail-on=error,warning'
    const { code, stdout } = await runToEnd(['lintian', '--allow-root', failOn, file])
    assert.equal(code, 0, stdout)
  })

  it('has a manual page with every flag and command, which man can format', async () => {
    await dpkg('--install', file)
    const page = join(root, 'usr/share/man/man8/viaduct.8.gz')
    const { stdout, stderr } = await runToEnd(['env', 'MANWIDTH=400', 'LC_ALL=C', 'man', '--warnings', page])
    assert.equal(stderr, '')
    const words = [
      `viaduct ${ownVersion}`,
      'viaduct command',
      '/run/viaduct/viaduct.sock',
      ...flags.filter(({ name }) => name.length > 1).map(({ name }) => `--${name}`),
      ...commands.map(({ help }) => help),
    ]
    assert.deepEqual(
      words.filter((word) => !stdout.includes(word)),
      [],
    )
  })

  it('has a manual page for each command, with its options', async () => {
    for (const command of commands) {
      const page = join(root, `usr/share/man/man1/viaduct-${command.name}.1.gz`)
      const { stdout, stderr } = await runToEnd([
        'env',
        'MANWIDTH=400',
        'LC_ALL=C',
        'man',
        '--warnings',
        page,
      ])
      assert.equal(stderr, '', command.name)
      const words = [command.help, ...optionsOf(command).map(({ name }) => `--${name}`)]
      const missing = words.filter((word) => !stdout.includes(word))
      assert.deepEqual(missing, [], command.name)
    }
  })

  it('completes its commands in bash, where its completions are', async () => {
    const script = join(root, 'usr/share/bash-completion/completions/viaduct')
    const line = 'COMP_WORDS=(viaduct explain --int); COMP_CWORD=2; _viaduct; echo "${COMPREPLY[@]}"'
    assert.equal(await mustRun(['bash', '-ec', `. ${script}; ${line}`]), '--interface')
    assert.match(
      readFileSync(join(root, 'usr/share/fish/vendor_completions.d/viaduct.fish'), 'utf8'),
      /explain/u,
    )
  })

  it('has the version of the program, and runs', async () => {
    const { version }: { readonly version: string } = JSON.parse(treeText('package.json'))
    assert.equal((await mustRun(['dpkg-deb', '--field', file, 'Version'])).trim(), version)
    const agent = join(root, 'usr/lib/viaduct/agent.js')
    assert.ok(
      (await mustRun([process.execPath, agent, '--version'])).startsWith(`viaduct ${version} (commit `),
    )
    assert.equal(
      readFileSync(join(root, 'usr/sbin/viaduct'), 'utf8').includes('/usr/lib/viaduct/agent.js'),
      true,
    )
  })

  it('has a unit that names only files of the package', () => {
    const unit = readFileSync(join(root, 'lib/systemd/system/viaduct.service'), 'utf8')
    assert.match(unit, /^EnvironmentFile=\/etc\/default\/viaduct$/mu)
    assert.match(unit, /^ExecStart=\/usr\/bin\/node \/usr\/lib\/viaduct\/agent\.js \$VIADUCT_FLAGS$/mu)
    assert.doesNotMatch(unit, /\/opt\//u)
  })

  it('keeps an edited /etc/default/viaduct at an update and a removal, and deletes it at a purge', async () => {
    const defaults = join(root, 'etc/default/viaduct')
    appendFileSync(defaults, '# edited\n')
    await dpkg('--install', file)
    assert.match(readFileSync(defaults, 'utf8'), /# edited/u)
    await dpkg('--remove', 'viaduct')
    assert.deepEqual([existsSync(defaults), existsSync(join(root, 'usr/lib/viaduct'))], [true, false])
    await dpkg('--purge', 'viaduct')
    assert.equal(existsSync(defaults), false)
  })
})
