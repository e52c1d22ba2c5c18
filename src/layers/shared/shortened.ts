/** Ten names are enough for a log line. */
export function shortened(names: readonly string[]): readonly string[] {
  return names.length <= 10 ? names : [...names.slice(0, 10), `and ${names.length - 10} more`]
}
