// Checks deploy/systemd with systemd-analyze and against the agent.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { parseArguments } from '../../../src/cli/index.js'
import { runToEnd } from '../../support/processes.js'
import { treeText } from '../../support/tree.js'

describe('deploy/systemd', () => {
  let folder: string
  let unit: string

  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'viaduct-systemd-'))
    unit = join(folder, 'viaduct.service')
    // The path of Node differs on this machine.
    const text = treeText('deploy/systemd/viaduct.service')
    writeFileSync(unit, text.replace('ExecStart=/usr/bin/node', `ExecStart=${process.execPath}`))
  })

  after(() => rmSync(folder, { recursive: true }))

  it('passes systemd-analyze verify', async () => {
    // systemd also reads the units on which this one depends. Problems of the machine's own units do not count.
    const { code, stdout, stderr } = await runToEnd(['systemd-analyze', 'verify', unit])
    const complaints = stderr.split('\n').filter((line) => line.includes('viaduct.service'))
    assert.deepEqual({ code, stdout, complaints }, { code: 0, stdout: '', complaints: [] })
  })

  it('has a low exposure level', async () => {
    // The scale ends at 100; a unit without protection has 96. Root, CAP_NET_ADMIN and writable /proc/sys cause most of the rest.
    const command = ['systemd-analyze', 'security', '--no-pager', '--offline=true', '--threshold=30', unit]
    const { code, stdout } = await runToEnd(command)
    assert.equal(code, 0, stdout)
  })

  it('has flags that the agent accepts', () => {
    const flags = /^VIADUCT_FLAGS=(.*)$/m.exec(treeText('deploy/systemd/viaduct.env'))?.[1] ?? ''
    const read: string[] = []
    const invocation = parseArguments(flags.split(' '), (path) => {
      read.push(path)
      return Buffer.from(treeText('deploy/kubernetes/base/config.yaml'))
    })
    assert.ok('config' in invocation)
    assert.deepEqual(read, ['/etc/viaduct/config.yaml'])
  })

  it('has the same heap limits as the image', () => {
    const limits = /--max-old-space-size=\d+ --max-semi-space-size=\d+/
    const [inImage, here] = ['Dockerfile', 'deploy/systemd/viaduct.env'].map(
      (path) => limits.exec(treeText(path))?.[0],
    )
    assert.ok(inImage !== undefined)
    assert.equal(here, inImage)
  })
})
