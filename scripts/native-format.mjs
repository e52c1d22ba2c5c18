// Checks the format of our C++ with clang-format 14. With --write, formats.
import { spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const files = readdirSync(join(root, 'native'), { recursive: true })
  .filter((name) => /\.(h|cc)$/.test(name))
  .map((name) => join('native', name))
  .toSorted()

const mode = process.argv.includes('--write') ? ['-i'] : ['--dry-run', '--Werror']
const result = spawnSync('clang-format-14', [...mode, ...files], { cwd: root, stdio: 'inherit' })
if (result.error) {
  console.error(
    `clang-format-14 cannot be run: ${result.error.message}. Install the Debian package clang-format-14.`,
  )
  process.exit(1)
}
process.exit(result.status ?? 1)
