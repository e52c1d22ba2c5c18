// Leaves secrets out of a text.

const left = '(left out)'

const words = String.raw`token|passw(?:or)?d|passphrase|secret|(?:private|access|client|api)[-_]?key|credentials?`

/**
 * Names of fields whose values are secrets, in JSON, YAML, URLs and lines of `key=value`. The limit keeps the time proportional to the
 * length of the text.
 */
const name = String.raw`[\w.-]{0,64}(?:${words})(?:[-_]?(?:data|id|value))?`
const hasName = new RegExp(words, 'iu')

/** A form of secrets. */
interface Form {
  /** Finds a secret. Its group `keep` stays. */
  readonly pattern: RegExp
  /** Absent: quick. Does not match: `pattern` does not either. A text of 30 MB without any secret takes seconds otherwise. */
  readonly hint?: RegExp
}

/** A form with `name` in it. */
function named(pattern: string): Form {
  return { pattern: new RegExp(pattern, 'giu'), hint: hasName }
}

const forms: readonly Form[] = [
  // A private key, with newlines as such or as they are in JSON.
  { pattern: /-----BEGIN [A-Z ]*PRIVATE KEY-----[^]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)/gu },
  // The same, or a certificate, in base64.
  { pattern: /LS0tLS1CRUdJTi[\w+/=]*/gu },
  // A login in a URL. A password may have a slash, which a URL does not allow.
  {
    hint: /:\/\//u,
    pattern:
      /(?<keep>[a-z][a-z\d+.-]{0,20}:\/\/)(?:[^\s/"@]+|[^\s/"@:]{0,256}:[^\s"@]{0,256})(?:@[^\s/"@]+)*(?=@)/giu,
  },
  // A header Authorization.
  {
    hint: /(?:Bearer|Basic|Digest) /iu,
    pattern: /(?<keep>\b(?:Bearer|Basic|Digest) +)[^\s"'\\]{6,}/giu,
  },
  // A JSON web token.
  { pattern: /\beyJ[\w-]{5,}\.[\w-]+\.[\w-]*/gu },
  // "token": "…", token: …, token=…; the quotes may have backslashes, as in JSON inside of JSON.
  named(String.raw`(?<keep>${name}\\*["']?\s*[:=]\s*(?<quote>\\*["']))(?:(?!\k<quote>)(?:\\.|[^\\\n]))+`),
  // token: | and a line in YAML.
  named(String.raw`(?<keep>${name}["']?\s*:\s*[|>][-+]?[^\S\n]*\n\s*)\S+`),
  named(String.raw`(?<keep>${name}["']?\s*[:=]\s*)(?=[^\s"'\\{[])[^\s"',}&]+`),
  // The value of a flag, in a command line or in a list of JSON or YAML.
  named(
    String.raw`(?<keep>--${name}(?:\\*["'])?,?\s+(?:- +)?\\*["']?|--${name}\\*["'],\\*["'])[^\s"'\\-][^\s"'\\]*`,
  ),
  // A variable as a name and a value.
  named(String.raw`(?<keep>${name}\\*["']?[,\s]+\\*["']?value\\*["']?\s*:\s*\\*["']?)[^\s"'\\,}]+`),
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
