import type { ConfigInput } from '../config/index.js'

/** One flag: its name without dashes, the field of Config that it sets, and how its text is taken over. */
export interface Flag {
  readonly name: string
  /** Upper-case word for the help; undefined: a boolean flag. */
  readonly value: string | undefined
  /** Path in Config, as ConfigError names it. */
  readonly field: string
  readonly help: string
  /** Written again, it adds to what it had; absent: the last one counts. */
  readonly isAdded?: true
  /** It is obeyed beside --config as well, where it wins over the file's field; absent: the file stands for it. */
  readonly isBesideConfig?: true
  /** Returns `input` with the flag's value. Throws ConfigError for text that is no value of its type. */
  readonly take: (input: ConfigInput, text: string) => ConfigInput
}
