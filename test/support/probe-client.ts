// Program: for each input line `tcp|udp ADDRESS PORT LIMIT_MS` opens one connection (or sends one datagram from a new socket) and
// prints the result: `answer TEXT`, `refused`, `timeout` or `error CODE`. Makes one probe at a time.
import { createSocket } from 'node:dgram'
import { connect } from 'node:net'
import { createInterface } from 'node:readline'

function errorLine(error: Error & { readonly code?: string }): string {
  return error.code === 'ECONNREFUSED' ? 'refused' : `error ${error.code ?? error.message}`
}

function probeTcp(host: string, port: number, limitMs: number): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect({ host, port })
    const timer = setTimeout(() => finish('timeout'), limitMs)
    let text = ''
    const finish = (line: string): void => {
      clearTimeout(timer)
      socket.destroy()
      resolve(line)
    }
    socket.setEncoding('utf8')
    socket.on('data', (part: string) => (text += part))
    socket.on('end', () => finish(`answer ${text}`))
    socket.on('error', (error) => finish(errorLine(error)))
  })
}

function probeUdp(host: string, port: number, limitMs: number): Promise<string> {
  return new Promise((resolve) => {
    const socket = createSocket(host.includes(':') ? 'udp6' : 'udp4')
    const timer = setTimeout(() => finish('timeout'), limitMs)
    const finish = (line: string): void => {
      clearTimeout(timer)
      socket.close()
      resolve(line)
    }
    socket.on('message', (text) => finish(`answer ${text.toString()}`))
    socket.on('error', (error) => finish(errorLine(error)))
    // A connected socket receives ICMP refusals.
    socket.connect(port, host, () => socket.send('who'))
  })
}

for await (const line of createInterface(process.stdin)) {
  const [protocol, address = '', port, limitMs] = line.split(' ')
  const probe = protocol === 'udp' ? probeUdp : probeTcp
  console.log(await probe(address, Number(port), Number(limitMs)))
}
