/** The first port of the relay's listeners. */
export const firstPort = 10_001
