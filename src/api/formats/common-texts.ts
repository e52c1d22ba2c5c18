/** A power of two. Clusters have a few thousand nodes at most. Two names with one slot replace each other. */
const slotCount = 4096
/** Longer texts are rarely repeated. */
const longest = 64
const firstNonAscii = 0x80

/**
 * Shares one string between objects with the same text, such as the name of a node. A known text allocates nothing. Texts that are
 * not ASCII are not shared.
 */
export class CommonTexts {
  readonly #slots: string[] = Array.from({ length: slotCount }, () => '')

  /** Reads UTF-8 text from bytes[start, end). */
  read(bytes: Buffer, start: number, end: number): string {
    const slot = end - start > longest ? undefined : slotOf(bytes, start, end)
    if (slot === undefined) return bytes.toString('utf8', start, end)
    const known = this.#slots[slot] ?? ''
    if (isText(known, bytes, start, end)) return known
    const text = bytes.toString('latin1', start, end)
    this.#slots[slot] = text
    return text
  }
}

/** The slot of a text, from the FNV-1a hash of its bytes; undefined: not ASCII. */
function slotOf(bytes: Buffer, start: number, end: number): number | undefined {
  let hash = 0x811c9dc5
  for (let i = start; i < end; i++) {
    const byte = bytes[i] ?? firstNonAscii
    if (byte >= firstNonAscii) return undefined
    hash = Math.imul(hash ^ byte, 0x01000193)
  }
  return (hash ^ (hash >>> 16)) & (slotCount - 1)
}

function isText(text: string, bytes: Buffer, start: number, end: number): boolean {
  if (text.length !== end - start) return false
  for (let i = 0; i < text.length; i++) if (text.charCodeAt(i) !== bytes[start + i]) return false
  return true
}
