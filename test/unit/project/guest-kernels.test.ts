// The guest boots kernels of several versions (issue 43 B5). Before, `--kernel` was an unknown option.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { pathToFileURL } from 'node:url'
import { runToEnd } from '../../support/processes.js'
import { treeRoot } from '../../support/tree.js'

describe('a version that is no kernel of the guest', () => {
  const commands = {
    'guest.mjs': ['--kernel', '4.19', '--', 'true'],
    // `npm run kernels -- 4.19`. Before, there was no such command.
    'kernels.mjs': ['6.1', '4.19'],
  }
  for (const [script, args] of Object.entries(commands))
    it(`is refused by ${script}, which names those that are`, async () => {
      const command = [process.execPath, join(treeRoot, 'scripts', script), ...args]
      const { code, stderr } = await runToEnd(command)
      assert.equal(code, 1)
      assert.equal(stderr, 'error: no kernel 4.19 for the guest, only 5.10, 6.1, 6.12, 7.x\n')
    })
})

/** Archives: for each package those on which it depends; and the packages that hold the kernel's files. */
const archives = [
  {
    what: 'a single package',
    dependencies: {
      'linux-image-amd64': ['linux-image-6.1.0-56-amd64'],
      'linux-image-6.1.0-56-amd64': ['kmod', 'initramfs-tools', 'linux-base'],
    },
    expected: ['linux-image-6.1.0-56-amd64'],
  },
  {
    what: 'those on which the image depends, as since Linux 7',
    dependencies: {
      'linux-image-amd64': ['linux-image-7.3.4+deb13-amd64'],
      'linux-image-7.3.4+deb13-amd64': ['linux-binary-7.3.4+deb13-amd64', 'linux-modules-7.3.4+deb13-amd64'],
    },
    expected: [
      'linux-image-7.3.4+deb13-amd64',
      'linux-binary-7.3.4+deb13-amd64',
      'linux-modules-7.3.4+deb13-amd64',
    ],
  },
]

const program = `
import { kernelPackages } from '${pathToFileURL(join(treeRoot, 'scripts/guest/packages.mjs')).href}'
console.log(JSON.stringify(await kernelPackages([])))`

describe("the packages with the files of a suite's kernel", () => {
  let folder: string
  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'viaduct-archive-'))
  })
  after(() => rmSync(folder, { recursive: true }))

  for (const { what, dependencies, expected } of archives) {
    it(`are ${what}`, async () => {
      const cases = Object.entries(dependencies).map(
        ([name, names]) => `*" ${name}") printf '  Depends: %s\\n' ${names.join(' ')};;`,
      )
      const tool = join(folder, 'apt-cache')
      writeFileSync(tool, `#!/bin/sh\ncase " $*" in\n${cases.join('\n')}\nesac\n`, { mode: 0o755 })
      const path = `PATH=${folder}:${process.env['PATH']}`
      const { stdout } = await runToEnd([
        'env',
        path,
        process.execPath,
        '--input-type=module',
        '--eval',
        program,
      ])
      assert.deepEqual(JSON.parse(stdout), expected)
    })
  }
})
