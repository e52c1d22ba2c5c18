/**
 * Resolves with the results of concurrent requests; the kernel may load a module for each. If several fail, rejects with the error of
 * the first in the list, not of the first in time.
 */
export async function inOrder<T extends readonly unknown[] | []>(
  requests: T,
): Promise<{ -readonly [K in keyof T]: Awaited<T[K]> }> {
  await Promise.allSettled(requests)
  return await Promise.all(requests)
}
