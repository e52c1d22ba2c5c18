import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { it } from 'node:test'

// A version range, or a package that does not support the oldest Node, fails here and not in production.
it('every runtime package has an exact version and loads on this Node', async () => {
  const {
    bundled,
    devDependencies,
  }: { bundled: readonly string[]; devDependencies: Record<string, string> } = JSON.parse(
    readFileSync('package.json', 'utf8'),
  )
  assert.ok(bundled.length > 0)
  for (const name of bundled) {
    assert.match(devDependencies[name] ?? '', /^\d+\.\d+\.\d+$/u, name)
    assert.ok(Object.keys(await import(name)).length > 0, name)
  }
})
