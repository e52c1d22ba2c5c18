// The parts of a bundle: made one after another, and written.
import { withoutSecrets } from './secrets.js'
import type { ArchiveFile, ArchivePlace } from './tar-file.js'

export interface Part {
  /** The name of its file. */
  readonly name: string
  /** Makes the text, at once or in pieces. An error becomes the file NAME.error. */
  readonly make: () => Promise<string> | AsyncIterable<string>
}

export interface BundleFile {
  readonly name: string
  readonly text: string
  /** The part failed, or is not complete. */
  readonly isIncomplete: boolean
}

interface CollectOptions {
  /** Longest time for one part. */
  readonly partMs: number
  /** Most characters of one part. */
  readonly partLength: number
  readonly clock: { schedule(delayMs: number, wake: () => void): () => void }
  /** Called before each part. */
  readonly onPart: (name: string) => void
  /** One sentence about an error. */
  readonly describe: (error: unknown) => string
}

/** The files of the parts, in their order. A part that fails or takes too long does not stop the others. */
export async function* collect(parts: readonly Part[], options: CollectOptions): AsyncGenerator<BundleFile> {
  for (const part of parts) {
    options.onPart(part.name)
    yield* await filesOf(part, options)
  }
}

async function filesOf({ name, make }: Part, options: CollectOptions): Promise<readonly BundleFile[]> {
  const { partMs, partLength, clock, describe } = options
  const pieces: string[] = []
  let length = 0
  let isOver = false
  const read = async (): Promise<string | undefined> => {
    const made = make()
    for await (const piece of 'then' in made ? [await made] : made) {
      if (isOver) return undefined
      pieces.push(piece)
      length += piece.length
      if (length > partLength) return `The part has more than ${partLength} characters: the rest is left out.`
    }
    return undefined
  }
  let cancel: (() => void) | undefined
  const late = new Promise<string>((resolve) => {
    cancel = clock.schedule(partMs, () => resolve(`The part was not complete after ${partMs / 1000} s.`))
  })
  let problem: string | undefined
  try {
    problem = await Promise.race([read(), late])
  } catch (error) {
    problem = describe(error)
  } finally {
    isOver = true
    cancel?.()
  }
  let text = ''
  try {
    text = withoutSecrets(pieces.join('').slice(0, partLength))
  } catch (error) {
    // V8 ran out of room for the search. The text as it is may have secrets.
    pieces.length = 0
    problem = describe(error)
  }
  const isIncomplete = problem !== undefined
  const files = pieces.length === 0 && isIncomplete ? [] : [{ name, text, isIncomplete }]
  if (problem === undefined) return files
  return [...files, { name: `${name}.error`, text: `${withoutSecrets(problem)}\n`, isIncomplete }]
}

/** Writes a tar.gz with these files, and ends its stream. Rejects with the error of `files` or of the stream. */
export async function writeBundle(files: AsyncIterable<ArchiveFile>, place: ArchivePlace): Promise<void> {
  // NB: loaded here, because no other command needs the library.
  const { writeArchive } = await import('./tar-file.js')
  await writeArchive(files, place)
}
