/** A Service with 10,000 endpoints has 20,000 lines, which no reader and no page needs whole. */
const maxLines = 1000

/** The first 1000 lines; a comment at the end says when there are more. */
export function boundedLines(lines: Iterable<string>): readonly string[] {
  const taken: string[] = []
  for (const line of lines) {
    if (taken.length === maxLines) return [...taken, `# more than ${maxLines} lines, the rest is left out`]
    taken.push(line)
  }
  return taken
}
