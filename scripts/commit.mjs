// The commit of this tree, which each build names.
import { realpathSync } from 'node:fs'
import { read, root, run, StepError } from './steps.mjs'

/** A build outside of git takes the commit from the environment: a source archive, or the Dockerfile, whose build has no .git. */
const variable = 'VIADUCT_COMMIT'
const form = /^(?:[0-9a-f]{40}(?:[0-9a-f]{24})?(?:-dirty)?|unknown)$/

/**
 * The commit as 40 hexadecimal digits (64 where git uses SHA-256), with `-dirty` if the tree differs from it; `unknown` where the folder
 * is no git tree of its own. The environment's VIADUCT_COMMIT comes first. Throws StepError if that has another form.
 * @param {{ folder?: string, environment?: Record<string, string | undefined> }} [options]
 * @returns {Promise<string>}
 */
export async function commitOf({ folder = root, environment = process.env } = {}) {
  const given = environment[variable] ?? ''
  if (given !== '') return checked(given)
  // The build of another program may have the index open.
  const options = { cwd: folder, env: { ...environment, GIT_OPTIONAL_LOCKS: '0' } }
  const head = await run(['git', 'rev-parse', '--show-toplevel', 'HEAD'], options)
  const [top = '', commit = ''] = head.stdout.split('\n')
  // A source archive may be unpacked inside of another tree, whose commit says nothing about it.
  if (head.status !== 0 || realpathSync(top) !== realpathSync(folder)) return 'unknown'
  const changes = await read(['git', 'status', '--porcelain'], options)
  return checked(changes === '' ? commit : `${commit}-dirty`)
}

/** @param {string} commit */
function checked(commit) {
  if (form.test(commit)) return commit
  const right =
    'the 40 hexadecimal digits of `git rev-parse HEAD`, which may be followed by -dirty, or unknown'
  throw new StepError(`${variable} is "${commit}": it must be ${right}`)
}
