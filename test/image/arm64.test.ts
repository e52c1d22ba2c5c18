// The arm64 image and the image index. The suite builds both on x64, and runs nothing of arm64 meanwhile (scripts/suites/image.mjs).
import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { runToEnd } from '../support/processes.js'
import { bytecodeProbe } from '../support/bytecode-probe.js'

const image = variable('VIADUCT_IMAGE_ARM64')
const emulator: readonly string[] = JSON.parse(variable('VIADUCT_IMAGE_ARM64_EMULATOR'))
const { OCIv1: inspected }: { readonly OCIv1: { readonly architecture: string; readonly os: string } } =
  JSON.parse(variable('VIADUCT_IMAGE_ARM64_INSPECTED'))
const index: {
  readonly manifests: readonly { readonly platform: { readonly os: string; readonly architecture: string } }[]
} = JSON.parse(variable('VIADUCT_IMAGE_INDEX'))

function variable(name: string): string {
  const value = process.env[name]
  assert.ok(value !== undefined, `${name} is set by the image suite`)
  return value
}

/** e_machine of an ELF header. */
function machineOf(path: string): number {
  const header = readFileSync(path)
  assert.equal(header.toString('latin1', 0, 4), '\u007fELF')
  return header.readUInt16LE(18)
}
const aarch64 = 183

describe('the arm64 image', { timeout: 120_000 }, () => {
  it('is in the image index beside the amd64 image', () => {
    const platforms = index.manifests.map(({ platform: { os, architecture } }) => `${os}/${architecture}`)
    assert.deepEqual(platforms.toSorted(), ['linux/amd64', 'linux/arm64'])
    assert.deepEqual([inspected.os, inspected.architecture], ['linux', 'arm64'])
  })

  for (const path of ['opt/viaduct/viaduct.node', 'usr/local/bin/node'])
    it(`has ${path} for AArch64`, () => assert.equal(machineOf(join(image, path)), aarch64))

  it('has no bytecode, and starts without it', async () => {
    assert.equal(existsSync(join(image, 'opt/viaduct/bundle.bytecode')), false)
    const folder = mkdtempSync(join(tmpdir(), 'viaduct-arm64-'))
    try {
      writeFileSync(join(folder, 'probe.cjs'), bytecodeProbe)
      const program = [...emulator, join(image, 'usr/local/bin/node'), '--require', join(folder, 'probe.cjs')]
      const agent = join(image, 'opt/viaduct/agent.js')
      const { code, stdout, stderr } = await runToEnd([...program, agent, '--version'])
      assert.deepEqual(
        { code, stdout: stdout.trim().split('\n'), stderr },
        {
          code: 0,
          stdout: [
            'bytecode refused: undefined',
            `viaduct 0.2.0 (commit ${variable('VIADUCT_IMAGE_COMMIT')})`,
          ],
          stderr: '',
        },
      )
    } finally {
      rmSync(folder, { recursive: true })
    }
  })
})
