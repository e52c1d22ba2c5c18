/** The version of package.json, here because the bundle ships without that file; a test holds them equal. */
export const version = '0.1.0'
