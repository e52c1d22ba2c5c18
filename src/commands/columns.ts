import { type Cell, Columns, gap, shown } from '../columns.js'

/** A table of all its rows. No row: the headings alone. */
export function columns(headings: readonly string[], rows: readonly (readonly Cell[])[]): string {
  const aligned = new Columns(headings)
  for (const row of rows) aligned.widen(row)
  return [headings, ...rows].map((row) => aligned.line(row)).join('')
}

/** Pairs as lines `Name:   value`, with aligned values. */
export function pairs(entries: readonly (readonly [string, Cell])[]): string {
  const width = Math.max(0, ...entries.map(([name]) => name.length))
  return entries.map(([name, value]) => `${`${name}:`.padEnd(width + gap)}${shown(value)}\n`).join('')
}
