import { isNotFound, KernelError, orRefusal } from '../../../errors.js'

/** undefined: ENOENT. Rejects with any other error. */
export async function orAbsent<T>(read: () => Promise<T>): Promise<T | undefined> {
  const answer = await orRefusal(read, isNotFound)
  return answer instanceof KernelError ? undefined : answer
}
