import type { Log } from '../log.js'

/** A log that writes nothing. */
export const silentLog: Log = {
  error: () => {},
  warn: () => {},
  info: () => {},
  debug: () => {},
  trace: () => {},
  writes: () => false,
}
