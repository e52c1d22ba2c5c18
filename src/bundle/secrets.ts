// Leaves secrets out of a text.

const left = '(left out)'

/**
 * Names of fields whose values are secrets, in JSON, YAML, URLs and lines of `key=value`. The limit keeps the time proportional to the
 * length of the text.
 */
const name = String.raw`[\w.-]{0,64}(?:token|passw(?:or)?d|passphrase|secret|(?:private|access|client|api)[-_]?key|credentials?)(?:[-_]?(?:data|id|value))?`

/** Each pattern finds a secret. Its group `keep` stays. */
const patterns: readonly RegExp[] = [
  // A private key, with newlines as such or as they are in JSON.
  /-----BEGIN [A-Z ]*PRIVATE KEY-----[^]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)/gu,
  // The same, or a certificate, in base64.
  /LS0tLS1CRUdJTi[\w+/=]*/gu,
  // A login in a URL. A password may have a slash, which a URL does not allow.
  /(?<keep>[a-z][a-z\d+.-]{0,20}:\/\/)(?:[^\s/"@]+|[^\s/"@:]{0,256}:[^\s"@]{0,256})(?:@[^\s/"@]+)*(?=@)/giu,
  // A header Authorization.
  /(?<keep>\b(?:Bearer|Basic|Digest) +)[^\s"'\\]{6,}/giu,
  // A JSON web token.
  /\beyJ[\w-]{5,}\.[\w-]+\.[\w-]*/gu,
  // "token": "…", token: …, token=…; the quotes may have backslashes, as in JSON inside of JSON.
  new RegExp(
    String.raw`(?<keep>${name}\\*["']?\s*[:=]\s*(?<quote>\\*["']))(?:(?!\k<quote>)(?:\\.|[^\\\n]))+`,
    'giu',
  ),
  // token: | and a line in YAML.
  new RegExp(String.raw`(?<keep>${name}["']?\s*:\s*[|>][-+]?\s*\n\s*)\S+`, 'giu'),
  new RegExp(String.raw`(?<keep>${name}["']?\s*[:=]\s*)(?=[^\s"'\\{[])[^\s"',}&]+`, 'giu'),
  // The value of a flag, in a command line or in a list of JSON or YAML.
  new RegExp(
    String.raw`(?<keep>--${name}(?:\\*["'])?,?\s+(?:- +)?\\*["']?|--${name}\\*["'],\\*["'])[^\s"'\\-][^\s"'\\]*`,
    'giu',
  ),
  // A variable as a name and a value.
  new RegExp(
    String.raw`(?<keep>${name}\\*["']?[,\s]+\\*["']?value\\*["']?\s*:\s*\\*["']?)[^\s"'\\,}]+`,
    'giu',
  ),
]

/** The text with `(left out)` in the place of each secret that its form shows. */
export function withoutSecrets(text: string): string {
  return patterns.reduce(
    (result, pattern) => result.replace(pattern, (...found) => `${keptOf(found)}${left}`),
    text,
  )
}

/** The group `keep` of the arguments of a replacer. */
function keptOf(found: readonly unknown[]): string {
  const keep: unknown = Reflect.get(Object(found.at(-1)), 'keep')
  return typeof keep === 'string' ? keep : ''
}
