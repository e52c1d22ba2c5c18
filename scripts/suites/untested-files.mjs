// A reporter for `node --test`, beside the spec reporter: names the files that have no test.

/**
 * `node --test` reports a file without any test as one passing test with the name of the file, and a `describe` without an `it` as a
 * passing suite.
 * @param {AsyncIterable<{ type: string, data: { name?: string, file?: string, details?: { type?: string } } }>} events
 */
// oxlint-disable-next-line import/no-default-export -- node:test takes a reporter from its module's default export
export default async function* untestedFiles(events) {
  const files = new Set()
  const tested = new Set()
  for await (const { type, data } of events) {
    if (type !== 'test:pass' && type !== 'test:fail') continue
    files.add(data.file)
    const isTest = data.details?.type !== 'suite' && data.name !== data.file
    if (isTest || type === 'test:fail') tested.add(data.file)
  }
  for (const file of files) if (!tested.has(file)) yield `ℹ no test in ${file}\n`
}
