import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { it } from 'node:test'

// A version range, or a package that does not support the oldest Node, fails here and not in production.
it('every runtime package has an exact version and loads on this Node', async () => {
  const { dependencies }: { dependencies: Record<string, string> } = JSON.parse(
    readFileSync('package.json', 'utf8'),
  )
  for (const [name, version] of Object.entries(dependencies)) {
    assert.match(version, /^\d+\.\d+\.\d+$/u, name)
    assert.ok(Object.keys(await import(name)).length > 0, name)
  }
})
