// Hardening options of the image and of its addon (issue 18, C12).
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { mustRun } from '../../support/processes.js'
import { treeRoot, treeText } from '../../support/tree.js'

describe('the shipped files', () => {
  it('include an addon with RELRO, BIND_NOW, a stack protector and checked glibc calls', async () => {
    const script = join(treeRoot, 'scripts/addon-hardening.mjs')
    await mustRun([process.execPath, script, join(treeRoot, 'dist/viaduct.node')])
  })

  it('are built from base images with a digest', () => {
    const text = treeText('Dockerfile')
    const bases = [...text.matchAll(/^FROM (?:--platform=\S+ )?(\S+)/gmu)].map(([, base = '']) => base)
    assert.deepEqual(bases, ['${BUILD_IMAGE}', '${NODE_IMAGE}', '${RUNTIME_IMAGE}'])
    assert.match(text, /^ARG NODE_IMAGE=\$\{BUILD_IMAGE\}$/mu)
    for (const name of ['BUILD_IMAGE', 'RUNTIME_IMAGE'])
      assert.match(text, new RegExp(`^ARG ${name}=\\S+@sha256:[0-9a-f]{64}$`, 'mu'))
  })
})
