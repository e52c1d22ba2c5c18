// Asks /livez five times a second, each time on a connection of its own, as a kubelet does, and prints how many milliseconds the
// answer took, 1000 where none came by then: node flood-probe.js PORT
import { get } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'

const port = Number(process.argv[2])
const limitMs = 1000
const periodMs = 200

async function probe(): Promise<number> {
  const start = performance.now()
  return await new Promise((resolve) => {
    const request = get({ port, path: '/livez', agent: false, timeout: limitMs }, (response) =>
      response.resume().on('end', () => resolve(performance.now() - start)),
    )
    request.on('timeout', () => request.destroy()).on('error', () => resolve(limitMs))
  })
}

for (;;) {
  console.log(await probe())
  await sleep(periodMs)
}
