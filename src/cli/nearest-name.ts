/** The name that is most like `text`, when it is like it at all: at most two fifths of its letters differ. */
export function nearestName(text: string, names: readonly string[]): string | undefined {
  let nearest: string | undefined
  let least = Math.floor(text.length * 0.4) + 1
  for (const name of names) {
    const distance = editDistance(text, name)
    if (distance >= least) continue
    least = distance
    nearest = name
  }
  return nearest
}

/** Levenshtein's distance, one row at a time. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j)
  for (const [i, letter] of Array.from(a).entries()) {
    const next = [i + 1]
    for (const [j, other] of Array.from(b).entries()) {
      const replaced = (row[j] ?? 0) + (letter === other ? 0 : 1)
      next.push(Math.min(replaced, (row[j + 1] ?? 0) + 1, (next[j] ?? 0) + 1))
    }
    row = next
  }
  return row[b.length] ?? 0
}
