import { printable } from '../words.js'

/** Aligns the columns of rows, three spaces apart, as kubectl does. */
export class Columns {
  readonly #widths: number[] = []

  /**
   * Rows as lines. A column is as wide as its widest cell so far: a wider cell of a later call widens the column from there on. A blank
   * cell is `-`.
   */
  lines(rows: readonly (readonly string[])[]): string {
    const widths = this.#widths
    for (const row of rows)
      for (const [at, cell] of row.entries()) widths[at] = Math.max(widths[at] ?? 1, cell.length)
    const last = widths.length - 1
    let text = ''
    for (const row of rows) {
      for (let at = 0; at < last; at++) text += shown(row[at]).padEnd((widths[at] ?? 0) + 3)
      text += `${shown(row[last])}\n`
    }
    return text
  }
}

function shown(cell: string | undefined): string {
  return cell === undefined || cell === '' ? '-' : cell
}

/** A table of all its rows. No row: the headings alone. */
export function columns(
  headings: readonly string[],
  rows: readonly (readonly (string | number)[])[],
): string {
  return new Columns().lines([headings, ...rows.map((row) => row.map((cell) => printable(String(cell))))])
}

/** Pairs as lines `Name:   value`, with aligned values. */
export function pairs(entries: readonly (readonly [string, string | number])[]): string {
  const width = Math.max(0, ...entries.map(([name]) => name.length))
  return entries
    .map(([name, value]) => `${`${name}:`.padEnd(width + 3)}${printable(String(value))}\n`)
    .join('')
}
