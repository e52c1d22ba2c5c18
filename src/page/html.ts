// HTML from templates. Every value is escaped unless it is HTML already.

/** Text that is HTML. Only `html` makes it. */
class Html {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

export type { Html }

/** A value of a template. */
export type Content = Html | string | number | readonly Content[]

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

/** A template: html`<td>${name}</td>`. NB: write quotes around the value of an attribute. */
export function html(parts: TemplateStringsArray, ...values: readonly Content[]): Html {
  return new Html(parts.map((part, index) => part + written(values[index] ?? '')).join(''))
}

function written(value: Content): string {
  if (value instanceof Html) return value.text
  if (typeof value === 'string') return value.replace(/[&<>"']/gu, (character) => entities[character] ?? '')
  return typeof value === 'number' ? String(value) : value.map(written).join('')
}
