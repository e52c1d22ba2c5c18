/**
 * Resolves with the results of concurrent requests. They run at the same time, as the kernel may load a module for each. Waits for
 * all. If several fail, rejects with the error of the first in the list, not of the first in time.
 */
export async function inOrder<T extends readonly unknown[] | []>(
  requests: T,
): Promise<{ -readonly [K in keyof T]: Awaited<T[K]> }> {
  await Promise.allSettled(requests)
  return await Promise.all(requests)
}
