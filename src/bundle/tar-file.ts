// Writes a compressed archive. Loaded only by `viaduct bundle`, as a script of its own (docs/adr/0016).
import type { Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import { pack } from 'tar-stream'

/** A file of the archive. */
export interface ArchiveFile {
  readonly name: string
  readonly text: string
}

export interface ArchivePlace {
  readonly out: Writable
  /** The folder of the files in the archive. */
  readonly folder: string
  readonly time: Date
}

/** Writes a tar.gz with these files, and ends `out`. Rejects with the error of `files` or of `out`. */
export async function writeArchive(
  files: AsyncIterable<ArchiveFile>,
  { out, folder, time }: ArchivePlace,
): Promise<void> {
  const archive = pack()
  const written = pipeline(archive, createGzip(), out)
  // Its error is thrown below.
  written.catch(() => undefined)
  try {
    for await (const { name, text } of files)
      archive.entry({ name: `${folder}/${name}`, mtime: time, mode: 0o600 }, text)
    archive.finalize()
  } catch (error) {
    archive.destroy(error instanceof Error ? error : new Error(String(error)))
    // If `out` failed first, the archive refuses entries, and the error of `out` is the reason.
    await written
    throw error
  }
  await written
}
