/** Characters that end a line, move a terminal's cursor, or reorder text: Cc, Zl, Zp and bidi controls. */
const unprintable = /[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/gu

/** Most texts: no character needs a look in the tables of Unicode. */
const printableAscii = /^[ -~]*$/u

/** The text without characters that change the place of others on a terminal. */
export function printable(text: string): string {
  return printableAscii.test(text) ? text : text.replaceAll(unprintable, '\u{FFFD}')
}

/**
 * Rows as lines with aligned columns, three spaces apart, as kubectl prints them. An empty cell is `-`. Without a row there are the
 * headings alone.
 */
export function columns(
  headings: readonly string[],
  rows: readonly (readonly (string | number)[])[],
): string {
  const texts = [
    headings,
    ...rows.map((row) => row.map((cell) => (cell === '' ? '-' : printable(String(cell))))),
  ]
  const widths = headings.map(() => 0)
  for (const row of texts)
    row.forEach((cell, at) => {
      if (cell.length > (widths[at] ?? 0)) widths[at] = cell.length
    })
  const last = headings.length - 1
  const lines = texts.map((row) =>
    row.map((cell, at) => (at === last ? cell : cell.padEnd((widths[at] ?? 0) + 3))).join(''),
  )
  return `${lines.join('\n')}\n`
}

/** Pairs as lines `Name:   value`, with aligned values. */
export function pairs(entries: readonly (readonly [string, string | number])[]): string {
  const width = Math.max(0, ...entries.map(([name]) => name.length))
  return entries
    .map(([name, value]) => `${`${name}:`.padEnd(width + 3)}${printable(String(value))}\n`)
    .join('')
}
