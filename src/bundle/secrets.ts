// Leaves secrets out of a text.

const left = '(left out)'

const words = String.raw`token|passw(?:or)?d|passphrase|secret|(?:private|access|client|api)[-_]?key|credentials?|dockerc(?:onfigjson|fg)`
/** Names with a value that follows after a space. */
const pairs = String.raw`(?:refresh|access|id|auth|session|bearer|client|api)[-_ ](?:token|secret|key|password)`
/** Protocols that follow `-p` in rules of iptables and ebtables. They are no secrets. */
const protocols = String.raw`(?:tcp|udp|udplite|sctp|dccp|icmp|icmpv6|ipv6-icmp|ipv6|ipv4|ip|arp|vlan|igmp|esp|ah|gre|vrrp|ospf|ipip|pim|mh|all|l2tp|ipcomp|\d{1,3})(?![^\s"'\\])`

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
  // The rest of a header. The scheme of Authorization stays.
  named(
    String.raw`(?<keep>(?<![\w.])(?:set-)?cookie\\*["']?\s*[:=]\s*\\*["']?|(?<![\w.])(?:proxy-)?authorization\\*["']?\s*[:=]\s*\\*["']?(?:[\w-]+ +(?=[^\s"'\\]))?)[^\n"'\\]+`,
  ),
  // The same without the name of the header. V8 takes eight times as long for \b with these flags.
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
  // refresh_token X, password X1
  named(String.raw`(?<keep>(?<!\w)${pairs} +)[^\s"',:=\\}&(]{6,}`),
  named(String.raw`(?<keep>(?<!\w)(?:${words}) +)(?=[^\s"'\\]{0,64}\d)[^\s"',:=\\}&(]{8,}`),
  // -p X in a command line or a list, except a protocol and a path.
  named(String.raw`(?<keep>(?<![\w-])-p(?: +|\\*["'],\s*\\*["']))(?!${protocols})[^\s"'\\/~.-][^\s"'\\]*`),
  // The login in the configuration of docker.
  named(String.raw`(?<keep>(?<![\w-])auth\\*["']?\s*[:=]\s*\\*["']?)[\w+/=-]{8,}`),
  // A variable as a value and a name, or as a name and a value.
  named(
    String.raw`(?<keep>(?<!\w)value\\*["']?\s*:\s*\\*["']?)[^\s"'\\][^\n"'\\]{0,4096}(?=\\*["']?[,\s]+\\*["']?name\\*["']?\s*:\s*\\*["']?[\w.-]{0,64}${name})`,
  ),
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
