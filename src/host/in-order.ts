/**
 * Answers to questions that are asked beside each other: the kernel may load a module for each of them. When several fail, the
 * first in the list is thrown, however long it took.
 */
export async function inOrder<T extends readonly unknown[] | []>(
  questions: T,
): Promise<{ -readonly [K in keyof T]: Awaited<T[K]> }> {
  await Promise.allSettled(questions)
  return await Promise.all(questions)
}
