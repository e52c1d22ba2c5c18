// The files of the working tree, for tests of the project. They are read from disk, so that a copy without git history works too.
import { readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

/** out/ts/test/support/ is four levels down. */
export const treeRoot = resolve(fileURLToPath(import.meta.url), '../../../../..')

/** Folders of generated files, as in .gitignore. */
const made = /^(?:node_modules|out|dist|build(?:-.*)?|\.git)$/

/** Paths of the tree's files that match, from the root, sorted. */
export function treeFiles(fits: RegExp): readonly string[] {
  const tops = readdirSync(treeRoot, { withFileTypes: true }).filter((entry) => !made.test(entry.name))
  const paths = tops.flatMap((entry) => (entry.isDirectory() ? below(entry.name) : [entry.name]))
  return paths.filter((path) => fits.test(path)).toSorted((a, b) => (a < b ? -1 : 1))
}

function below(folder: string): readonly string[] {
  const names = readdirSync(join(treeRoot, folder), { recursive: true, encoding: 'utf8' })
  return names.map((name) => `${folder}/${name}`)
}

/** Text of a file by its path from the root. */
export function treeText(path: string): string {
  return readFileSync(join(treeRoot, path), 'utf8')
}
