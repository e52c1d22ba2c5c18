// IP addresses and CIDRs in canonical text, and their 16-byte form. Own code: stricter and ten times faster than the
// libraries (docs/adr), with ipaddr.js-like behaviour held by property tests.
export type IpFamily = 'ipv4' | 'ipv6'
/** Canonical text (RFC 5952 for IPv6): equal addresses are equal strings. */
export type IpAddress = string & { readonly brand: 'IpAddress' }
