// Checks the usual protections of native code in a build of the addon: node scripts/addon-hardening.mjs FILE
import { isMain, read, runMain, StepError } from './steps.mjs'

/** The pattern of each protection in the output of readelf. */
const protections = {
  'read-only relocations (RELRO)': /^\s*GNU_RELRO\s/m,
  'immediate binding (BIND_NOW)': /\(FLAGS_1\).*\bNOW\b/,
  'a stack that is not executable': /^\s*GNU_STACK(?:\s+0x[0-9a-f]+)+\s+RW\s/m,
  'a stack protector': /\s__stack_chk_fail(?:@|\s)/,
  'checked calls of glibc (_FORTIFY_SOURCE)': /\s__(?!stack)\w+_chk(?:@|\s)/,
}

/**
 * Throws StepError that names the missing protections.
 * @param {string} path
 */
export async function checkHardening(path) {
  const shown = await read(['readelf', '--wide', '--program-headers', '--dynamic', '--dyn-syms', path])
  const missing = Object.entries(protections).filter(([, pattern]) => !pattern.test(shown))
  if (missing.length > 0) throw new StepError(`${path} lacks ${missing.map(([name]) => name).join(', ')}`)
}

if (isMain(import.meta.url)) await runMain(() => checkHardening(process.argv[2] ?? ''))
