// The build that runs: its version and its commit.

/** The version of package.json. The bundle ships without that file; a test compares the two. */
export const version = '0.2.0'

/** esbuild replaces the name when it makes dist/ (scripts/bundle.mjs). */
declare const viaductCommit: string | undefined

/**
 * The commit that dist/ was made from: 40 hexadecimal digits, followed by `-dirty` if the sources differed from it. `unknown`: the build
 * did not know it, or this code does not run from dist/.
 */
export const commit = typeof viaductCommit === 'string' ? viaductCommit : 'unknown'

/** A build, by which two programs of the same version differ. */
export interface Build {
  readonly version: string
  /** As `commit`. Absent: a build before builds named their commit. */
  readonly commit?: string | undefined
}

/** `0.2.0 (commit 6b21090804c9)`: with the first 12 digits of the commit, as people read it. */
export function buildText({ version: number, commit: made = 'unknown' }: Build): string {
  return `${number} (commit ${made.replace(/^(?<first>[0-9a-f]{12})[0-9a-f]+/u, '$<first>')})`
}
