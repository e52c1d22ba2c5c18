// Leaves secrets out of a text.

const left = '(left out)'

const words = 'token|password|passwd|secret|client-key-data|client_key|api[-_]?key|credentials?'

/**
 * Names of fields whose values are secrets, in JSON, YAML, URLs and lines of `key=value`. The limit keeps the time proportional to the
 * length of the text.
 */
const name = String.raw`[\w.-]{0,64}(?:${words})`
const hasName = new RegExp(words, 'iu')

/** A form of secrets. */
interface Form {
  /** Finds a secret. Its group `keep` stays. */
  readonly pattern: RegExp
  /** Absent: quick. Does not match: `pattern` does not either. A text of 30 MB without any secret takes seconds otherwise. */
  readonly hint?: RegExp
}

const forms: readonly Form[] = [
  // A private key, with newlines as such or as they are in JSON.
  { pattern: /-----BEGIN [A-Z ]*PRIVATE KEY-----[^]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)/gu },
  // A login in a URL.
  { hint: /:\/\//u, pattern: /(?<keep>[a-z][a-z\d+.-]{0,20}:\/\/)[^\s/"@]+(?:@[^\s/"@]+)*(?=@)/giu },
  // A header Authorization.
  {
    hint: /(?:Bearer|Basic|Digest) /iu,
    pattern: /(?<keep>\b(?:Bearer|Basic|Digest) +)[\w+/.~=-]{6,}/giu,
  },
  // A JSON web token.
  { pattern: /\beyJ[\w-]{5,}\.[\w-]+\.[\w-]*/gu },
  // "token": "…", token: …, token=…; the quotes may have backslashes, as in JSON inside of JSON.
  {
    hint: hasName,
    pattern: new RegExp(
      String.raw`(?<keep>${name}\\*["']?\s*[:=]\s*(?<quote>\\*["']))(?:(?!\k<quote>)(?:\\.|[^\\\n]))+`,
      'giu',
    ),
  },
  {
    hint: hasName,
    pattern: new RegExp(String.raw`(?<keep>${name}["']?\s*[:=]\s*)(?=[^\s"'\\{[])[^\s"',}&]+`, 'giu'),
  },
  // The value of a flag.
  { hint: hasName, pattern: new RegExp(String.raw`(?<keep>--${name} +)[^\s"'-][^\s"']*`, 'giu') },
]

/** The text with `(left out)` in the place of each secret that its form shows. */
export function withoutSecrets(text: string): string {
  return forms.reduce(
    (result, { pattern, hint }) =>
      hint?.test(result) === false
        ? result
        : result.replace(pattern, (...found) => `${keptOf(found)}${left}`),
    text,
  )
}

/** The group `keep` of the arguments of a replacer. */
function keptOf(found: readonly unknown[]): string {
  const keep: unknown = Reflect.get(Object(found.at(-1)), 'keep')
  return typeof keep === 'string' ? keep : ''
}
