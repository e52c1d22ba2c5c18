/** The version of package.json. The bundle ships without that file; a test compares the two. */
export const version = '0.2.0'
