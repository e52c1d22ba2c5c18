import type { ArchiveFile, ArchivePlace } from './tar-file.js'

/** Writes a tar.gz with these files, and ends its stream. Rejects with the error of `files` or of the stream. */
export async function writeBundle(files: AsyncIterable<ArchiveFile>, place: ArchivePlace): Promise<void> {
  // NB: loaded here, because no other command needs the library.
  const { writeArchive } = await import('./tar-file.js')
  await writeArchive(files, place)
}
