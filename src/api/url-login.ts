import { ConfigError } from '../errors.js'

const parts = ['username', 'password'] as const

/** Throws ConfigError, which names `field`, when user or password of a URL cannot be decoded. */
export function checkUrlLogin(field: string, url: URL): void {
  for (const part of parts) {
    try {
      decodeURIComponent(url[part])
    } catch {
      throw new ConfigError(field, `its ${part} must be percent-encoded: a % is %25`)
    }
  }
}

/** The header Authorization for user and password of a URL that `checkUrlLogin` accepts; none without them. */
export function urlLogin(url: URL): Readonly<Record<string, string>> {
  if (parts.every((part) => url[part] === '')) return {}
  const text = parts.map((part) => decodeURIComponent(url[part])).join(':')
  return { authorization: `Basic ${Buffer.from(text).toString('base64')}` }
}
