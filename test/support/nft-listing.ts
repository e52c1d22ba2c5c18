// Listings of nft in a fixed order: the kernel lists elements in the order of its hash tables.

/** The listing with the elements of each set in order, one in a line, without clients with session affinity. */
export function orderedListing(listing: string): string {
  const ordered = listing.replaceAll(
    /( *|\t*)elements = \{([^}]*)\}/gu,
    (_, indent: string, body: string) => {
      const elements = body
        .split(',')
        .map((element) => element.trim())
        .filter((element) => !element.includes(' expires '))
        .toSorted()
      return elements.length === 0
        ? ''
        : `${indent}elements = { ${elements.join(`,\n${indent}             `)} }`
    },
  )
  return ordered.replaceAll(/\n\s*\n(\t*\})/gu, '\n$1').trim()
}

/** The sets, maps and chains of a listing. */
export function blocksOf(text: string): readonly string[] {
  return [...text.matchAll(/^\t(?:set|map|chain) \S+ \{$[^]*?^\t\}$/gmu)].map(([block]) => block)
}
