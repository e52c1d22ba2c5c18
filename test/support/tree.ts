// The working tree's own files, for tests about the project.
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

/** out/ts/test/support/ is four levels down. */
export const treeRoot = resolve(fileURLToPath(import.meta.url), '../../../../..')

/** Paths of files under version control or about to be, that exist, from the root. */
export function treeFiles(...patterns: readonly string[]): readonly string[] {
  const list = ['ls-files', '--cached', '--others', '--exclude-standard', '-z', '--', ...patterns]
  const output = execFileSync('git', list, { cwd: treeRoot, encoding: 'utf8' })
  return output.split('\0').filter((path) => path !== '' && existsSync(join(treeRoot, path)))
}

/** Text of a file by its path from the root. */
export function treeText(path: string): string {
  return readFileSync(join(treeRoot, path), 'utf8')
}
