// Output of both parts of the demo.

export function say(text = ''): void {
  console.log(text)
}

export function title(text: string): void {
  say(`\n== ${text}`)
}

/** Lines of a tool's output, moved in. */
export function quote(text: string): void {
  say(text.replaceAll(/^/gm, '  '))
}

export function sinceMs(started: number): string {
  return `${Math.round(performance.now() - started)} ms`
}

/** Checks the shown result: the demo fails if it does not hold. */
export function check(holds: boolean, claim: string): void {
  if (!holds) throw new Error(`this should be so, and is not: ${claim}`)
}
