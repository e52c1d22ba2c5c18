import { ConfigError } from '../../errors.js'

const schemes = ['http:', 'https:', 'socks5:', 'socks5h:']

/** Reads the URL of a proxy. Throws ConfigError, which names `field`. */
export function parseProxy(field: string, text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || !schemes.includes(url.protocol) || url.hostname === '') {
    const beginnings = schemes.map((scheme) => `${scheme}//`).join(', ')
    throw new ConfigError(field, `must be the URL of a proxy that begins with one of ${beginnings}`)
  }
  for (const part of ['username', 'password'] as const) {
    if (!isDecodable(url[part]))
      throw new ConfigError(field, `its ${part} must be percent-encoded: a % is %25`)
  }
  return url
}

/** Whether the text is percent-encoded UTF-8. */
function isDecodable(text: string): boolean {
  try {
    decodeURIComponent(text)
    return true
  } catch {
    return false
  }
}
