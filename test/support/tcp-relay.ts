// Program: a load balancer of the node that forwards TCP connections: node tcp-relay.js PORT HOST HOSTPORT. Like nginx's stream module,
// it answers for a server that no longer does. Prints `ready` when it listens on 127.0.0.1.
import { connect, createServer } from 'node:net'

const [, , port, host, hostPort] = process.argv
createServer((client) => {
  const server = connect(Number(hostPort), host)
  client.pipe(server).pipe(client)
  client.on('error', () => server.destroy())
  server.on('error', () => client.destroy())
}).listen(Number(port), '127.0.0.1', () => process.stdout.write('ready\n'))
