// Floods one port with HTTP requests until it is killed: node flood-client.js PORT PATH CONNECTIONS PIPELINED WAY
// WAY: `stay` reads all replies and then repeats; `leave` closes at once and connects again a second later.
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

const [port, path = '/', connections, pipelined, way] = process.argv.slice(2)
const burst = `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`.repeat(Number(pipelined))
const reply = Buffer.from('HTTP/1.1 ')
const againMs = 1000

/** One connection; resolves when it has ended. */
async function stay(): Promise<void> {
  const socket = connect(Number(port), '127.0.0.1', () => socket.write(burst))
  let missing = Number(pipelined)
  socket.on('data', (data) => {
    for (let at = data.indexOf(reply); at >= 0; at = data.indexOf(reply, at + 1)) missing--
    if (missing > 0) return
    missing = Number(pipelined)
    socket.write(burst)
  })
  await new Promise((resolve) => socket.on('error', resolve).on('close', resolve))
}

async function leave(): Promise<void> {
  const socket = connect(Number(port), '127.0.0.1', () =>
    socket.write(burst, () => setTimeout(() => socket.destroy(), 1)),
  )
  await new Promise((resolve) => socket.on('error', resolve).on('close', resolve))
}

async function keepOn(): Promise<void> {
  for (;;) {
    await (way === 'stay' ? stay() : leave())
    await sleep(againMs)
  }
}

for (let i = 0; i < Number(connections); i++) void keepOn()
