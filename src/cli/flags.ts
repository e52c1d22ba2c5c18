import { settings, type AnySetting, type Flag } from '../config/index.js'

/** A flag, and the setting that it sets. */
export interface SettingFlag extends Flag {
  readonly setting: AnySetting
}

/** Every flag except --version and --help, in the order of the help. Flags of kube-proxy keep their names and meanings. */
export const flags: readonly SettingFlag[] = settings.flatMap((setting) =>
  setting.flag === undefined ? [] : [{ ...setting.flag, setting }],
)

/** A flag as it was written; a flag that was repeated is there twice. */
export interface WrittenFlag {
  readonly flag: SettingFlag
  readonly text: string
}

/** The texts of all flags by name: those that were written, else the defaults. The login in a URL is left out. */
export function flagTexts(written: readonly WrittenFlag[]): Readonly<Record<string, string>> {
  const texts = new Map(flags.map(({ name, defaultText }) => [name, defaultText]))
  const seen = new Set<string>()
  for (const { flag, text } of written) {
    const { name, setting } = flag
    const shown = text.replace(/\/\/[^/]*@/u, '//')
    const isAdded = setting.type.add !== undefined && seen.has(name)
    texts.set(name, isAdded ? `${texts.get(name)},${shown}` : shown)
    seen.add(name)
  }
  return Object.fromEntries(texts)
}
