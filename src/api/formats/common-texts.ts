/** A power of two. Clusters have a few thousand nodes at most; two names in one slot only displace each other. */
const slotCount = 4096
/** Longer ones are not common. */
const longest = 64
const firstNonAscii = 0x80

/**
 * Texts that thousands of objects share, such as names of nodes: one string for all of them, which is found without making another.
 * What is not ASCII is read anew each time.
 */
export class CommonTexts {
  readonly #slots: string[] = Array.from({ length: slotCount }, () => '')

  /** The text in bytes[start, end), UTF-8. */
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

/** By a hash of the bytes (FNV-1a); undefined: not ASCII. */
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
