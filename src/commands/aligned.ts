import { Columns } from './columns.js'

/** Rows that decide on the widths of the columns. A wider cell after them widens its column from there on. */
const firstRows = 2000

/**
 * A table of the agent with aligned columns, while it arrives. `texts`: lines of cells with a tab between two of them, the headings
 * first, and blank lines. No row: no line, not even the headings.
 */
export async function* aligned(texts: AsyncIterable<string>): AsyncGenerator<string> {
  const columns = new Columns()
  let rows: string[][] = []
  let hasBegun = false
  for await (const text of texts) {
    for (const line of text.split('\n')) if (line !== '') rows.push(line.split('\t'))
    if (!hasBegun && rows.length < firstRows) continue
    hasBegun = true
    yield columns.lines(rows)
    rows = []
  }
  if (hasBegun || rows.length > 1) yield columns.lines(rows)
}
