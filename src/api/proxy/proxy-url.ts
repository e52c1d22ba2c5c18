import { ConfigError } from '../../errors.js'
import { checkUrlLogin } from '../url-login.js'

const schemes = ['http:', 'https:', 'socks5:', 'socks5h:']

/** Reads the URL of a proxy. Throws ConfigError, which names `field`. */
export function parseProxy(field: string, text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || !schemes.includes(url.protocol) || url.hostname === '') {
    const beginnings = schemes.map((scheme) => `${scheme}//`).join(', ')
    throw new ConfigError(field, `must be the URL of a proxy that begins with one of ${beginnings}`)
  }
  checkUrlLogin(field, url)
  return url
}
