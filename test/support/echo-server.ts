// Program: listens on every `tcp|udp ADDRESS PORT` of its arguments and answers each request with its own `ADDRESS PORT`.
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { createServer } from 'node:net'

async function listen(protocol: string, address: string, port: number): Promise<void> {
  const answer = `${address} ${port}`
  if (protocol === 'tcp') {
    const server = createServer((socket) => {
      // A client that closes its connection is not an error of the server.
      socket.on('error', () => socket.destroy())
      socket.end(answer)
    })
    await once(server.listen(port, address), 'listening')
    return
  }
  const socket = createSocket(address.includes(':') ? 'udp6' : 'udp4')
  socket.on('message', (_, sender) => socket.send(answer, sender.port, sender.address))
  socket.bind(port, address)
  await once(socket, 'listening')
}

for (const argument of process.argv.slice(2)) {
  const [protocol, address, port] = argument.split(' ')
  await listen(protocol ?? '', address ?? '', Number(port))
}
console.log('listening')
