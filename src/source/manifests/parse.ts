import { isAscii, isUtf8 } from 'node:buffer'
import { parseYaml } from '../../config/index.js'
import { ConfigError } from '../../errors.js'
import { type FileObjects, ManifestContents } from './document.js'

/** A file of which at least the syntax is right. */
export interface ReadManifest extends FileObjects {
  /** Places and kinds of the objects that are not read. */
  readonly ignored: readonly string[]
  /** One of each object that cannot be used, or more. */
  readonly problems: readonly ConfigError[]
}

/** The contents of a file, or the reasons why it cannot be read at all. */
export type ManifestReading = ReadManifest | { readonly problems: readonly ConfigError[] }

/** Parses YAML or JSON, one or several documents. `file` is the name for messages. Pure; never throws. */
export function parseManifest(file: string, bytes: Uint8Array): ManifestReading {
  const text = decodeUtf8(bytes)
  if (text === undefined) return failed(new ConfigError(file, 'must be UTF-8 text'))
  // An empty file may be one that an editor or a full disk truncated. It is not an empty list of objects.
  if (text.trim() === '') {
    return failed(new ConfigError(file, 'is empty: delete the file if its objects are to go'))
  }
  const contents = new ManifestContents(file)
  try {
    for (const [index, document] of documentsOf(file, text).entries())
      contents.addDocument(document, { document: index + 1 })
  } catch (error) {
    if (error instanceof ConfigError) return failed(syntaxError(file, error))
    throw error
  }
  return contents
}

/** Without the byte order mark. Nearly every manifest is ASCII, which needs no decoding. */
function decodeUtf8(bytes: Uint8Array): string | undefined {
  if (!isUtf8(bytes)) return undefined
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  if (isAscii(bytes)) return buffer.toString('latin1')
  const text = buffer.toString('utf8')
  return text.startsWith('\uFEFF') ? text.slice(1) : text
}

function failed(problem: ConfigError): ManifestReading {
  return { problems: [problem] }
}

function documentsOf(file: string, text: string): readonly unknown[] {
  if (file.endsWith('.json')) {
    try {
      return [JSON.parse(text)]
    } catch (error) {
      // YAML is a superset of JSON, and its errors have line numbers.
      if (!(error instanceof SyntaxError)) throw error
    }
  }
  return parseYaml(text)
}

function syntaxError(file: string, { path, problem }: ConfigError): ConfigError {
  return new ConfigError(path === '' ? file : `${file}, ${path}`, problem)
}
