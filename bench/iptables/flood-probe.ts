// Requests /livez five times a second over new connections, like a kubelet. Prints the milliseconds until each answer; 1000 means no
// answer: node flood-probe.js PORT
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
