// Writes the generated tables of documents from the compiled code (npm run build:ts). `--check` writes nothing and fails if a document
// would change. Descriptions in the tables are kept from the document.
import { readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { fillCommands } from './docs/commands.mjs'
import { fillFlags } from './docs/flags.mjs'
import { fillMetrics } from './docs/metrics.mjs'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const documents = [
  { path: 'docs/metrics.md', fill: fillMetrics },
  { path: 'docs/flags.md', fill: fillFlags },
  { path: 'docs/commands.md', fill: fillCommands },
]

const { values } = parseArgs({ options: { check: { type: 'boolean', default: false } } })
const changed = []
for (const { path, fill } of documents) {
  const file = join(root, path)
  const before = readFileSync(file, 'utf8')
  const after = await fill(before)
  if (after === before) continue
  changed.push(path)
  if (!values.check) writeFileSync(file, after)
}
if (values.check && changed.length > 0) {
  console.error(`${changed.join(', ')}: not as the code says; node scripts/docs.mjs writes it`)
  process.exitCode = 1
}
