// Leaves secrets out of a text.

const left = '(left out)'

/**
 * Names of fields whose values are secrets, in JSON, YAML, URLs and lines of `key=value`. The limit keeps the time proportional to the
 * length of the text.
 */
const name = String.raw`[\w.-]{0,64}(?:token|password|passwd|secret|client-key-data|client_key|api[-_]?key|credentials?)`

/** Each pattern finds a secret. Its group `keep` stays. */
const patterns: readonly RegExp[] = [
  // A private key, with newlines as such or as they are in JSON.
  /-----BEGIN [A-Z ]*PRIVATE KEY-----[^]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)/gu,
  // A login in a URL.
  /(?<keep>[a-z][a-z\d+.-]{0,20}:\/\/)[^\s/"@]+(?:@[^\s/"@]+)*(?=@)/giu,
  // A header Authorization.
  /(?<keep>\b(?:Bearer|Basic|Digest) +)[\w+/.~=-]{6,}/giu,
  // A JSON web token.
  /\beyJ[\w-]{5,}\.[\w-]+\.[\w-]*/gu,
  // "token": "…", token: …, token=…; the quotes may have backslashes, as in JSON inside of JSON.
  new RegExp(
    String.raw`(?<keep>${name}\\*["']?\s*[:=]\s*(?<quote>\\*["']))(?:(?!\k<quote>)(?:\\.|[^\\\n]))+`,
    'giu',
  ),
  new RegExp(String.raw`(?<keep>${name}["']?\s*[:=]\s*)(?=[^\s"'\\{[])[^\s"',}&]+`, 'giu'),
  // The value of a flag.
  new RegExp(String.raw`(?<keep>--${name} +)[^\s"'-][^\s"']*`, 'giu'),
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
