/** The number of a set that only a plan has, as PlannedSetIndex() of native/xtables/planned_calls.cc. */
export function plannedSetIndex(name: string): number {
  let hash = 0x811c9dc5
  for (const byte of Buffer.from(name)) hash = Math.imul(hash ^ byte, 0x01000193) >>> 0
  return 0x8000 | (hash % 0x7fff)
}
