import type { NfHook } from './objects.js'

/** Whether a base chain translates destinations of new connections. undefined: no base chain. */
export function translatesDestinations(hook: NfHook | undefined): boolean {
  return hook?.type === 'nat' && (hook.hook === 'prerouting' || hook.hook === 'output')
}
