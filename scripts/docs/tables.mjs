// Tables of Markdown between two comments: `<!-- NAME: generated … -->` and `<!-- end of NAME -->`.

/** The document with a new generated part: the result of `make` for the lines of the old part. */
export function replacePart(document, name, make) {
  const [start, end] = [
    document.match(new RegExp(`^<!-- ${name}: generated.*-->\n`, 'mu')),
    document.indexOf(`<!-- end of ${name} -->`),
  ]
  if (start === null || end < 0) throw new Error(`the document has no generated part ${name}`)
  const from = start.index + start[0].length
  const part = make(document.slice(from, end).trim().split('\n')).join('\n')
  return `${document.slice(0, from)}\n${part}\n\n${document.slice(end)}`
}

/** Cells of the rows of a table, without its head. */
export function rowsOf(lines) {
  const rows = lines.filter((line) => line.startsWith('|')).slice(2)
  return rows.map((line) =>
    line
      .slice(1, -1)
      .split(/(?<!\\)\|/u)
      .map((cell) => cell.trim()),
  )
}

export function tableOf(head, rows) {
  return [lineOf(head), `|${'---|'.repeat(head.length)}`, ...rows.map(lineOf)]
}

function lineOf(cells) {
  // An empty cell is one blank wide, also next to another empty cell.
  return `| ${cells.join(' | ')} |`.replace(/\|(?: {2}\|)+/gu, (run) => run.replaceAll('  ', ' '))
}
