// Leaves secrets out of a text.

const left = '(left out)'

const words = String.raw`token|passw(?:or)?d|passphrase|secret|(?:private|access|client|api)[-_]?key|credentials?`

/** The ends of names of fields whose values are secrets, in JSON, YAML, URLs and lines of `key=value`. */
const name = String.raw`(?:${words})(?:[-_]?(?:data|id|value))?`
/** A flag with such a name. The limit keeps the time proportional to the length of the text. */
const flag = String.raw`(?<![\w.-])--[\w.-]{0,64}${name}`

/** Each pattern finds a secret, in time proportional to the length of the text. Its group `keep` stays. */
const patterns: readonly RegExp[] = [
  // A private key, with newlines as such or as they are in JSON.
  /-----BEGIN [A-Z ]*PRIVATE KEY-----[^]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)/gu,
  // The same, or a certificate, in base64.
  /LS0tLS1CRUdJTi[\w+/=]*/gu,
  // A login in a URL. A password may have a slash, which a URL does not allow. The digest of an image is no host.
  /(?<keep>:\/\/)(?:[^\s/"@]+|[^\s/"@:]{0,256}:[^\s"@]{0,256})(?:@[^\s/"@]+)*(?=@)(?!@sha256:)/gu,
  // A header Authorization. V8 takes eight times as long for \b with these flags.
  /(?<keep>(?<!\w)(?:Bearer|Basic|Digest) +)[^\s"'\\]{6,}/giu,
  // A JSON web token.
  /(?<![\w-])eyJ[\w-]{5,}\.[\w-]+\.[\w-]*/gu,
  // "token": "…", token: …, token=…; the quotes may have backslashes, as in JSON inside of JSON. The limit bounds the stack of V8, which
  // keeps a place for each character; no credential is that long.
  named(
    String.raw`(?<keep>${name}\\*["']?\s*[:=]\s*(?<quote>\\{0,8}["']))(?:(?!\k<quote>)(?:\\.|[^\\\n])){1,65536}`,
  ),
  // token: | and indented lines in YAML.
  named(
    String.raw`(?<keep>${name}["']?\s*:\s*[|>][-+]?[^\S\n]*\n(?<indent>[^\S\n]+))[^\n]+(?:\n\k<indent>[^\n]*){0,999}`,
  ),
  named(String.raw`(?<keep>${name}["']?\s*[:=]\s*)(?=[^\s"'\\{[])[^\s"',}&]+`),
  // The value of a flag, in a command line or in a list of JSON or YAML.
  named(
    String.raw`(?<keep>${flag}(?:\\*["'])?,?\s+(?:- +)?\\*["']?|${flag}\\*["'],\\*["'])[^\s"'\\-][^\s"'\\]*`,
  ),
  // A variable as a name and a value.
  named(String.raw`(?<keep>${name}\\*["']?[,\s]+\\*["']?value\\*["']?\s*:\s*\\*["']?)[^\s"'\\,}]+`),
]

function named(pattern: string): RegExp {
  return new RegExp(pattern, 'giu')
}

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
