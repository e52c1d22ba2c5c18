// A load balancer that ends TCP: it keeps its connections open, regardless of the server behind it.
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'

export class StallingRelay {
  readonly #server
  readonly #pairs = new Set<readonly [Socket, Socket]>()

  /** Forwards connections to this port of 127.0.0.1. */
  constructor(port: number) {
    this.#server = createServer((client) => {
      const server = connect(port, '127.0.0.1')
      const pair = [client, server] as const
      this.#pairs.add(pair)
      client.pipe(server).pipe(client)
      for (const end of pair) {
        end.on('error', () => undefined)
        end.on('close', () => {
          this.#pairs.delete(pair)
          for (const other of pair) other.destroy()
        })
      }
    })
  }

  async listen(): Promise<void> {
    await once(this.#server.listen(0, '127.0.0.1'), 'listening')
  }

  get port(): number {
    const address: AddressInfo | string | null = this.#server.address()
    if (typeof address !== 'object' || address === null) throw new Error('the relay does not listen')
    return address.port
  }

  get openConnections(): number {
    return this.#pairs.size
  }

  /** Forwards nothing any more between the ends of the present connections: what comes is lost. It closes none of them. */
  stall(): void {
    for (const [client, server] of this.#pairs) {
      client.unpipe(server).resume()
      server.unpipe(client).resume()
    }
  }

  close(): void {
    for (const pair of this.#pairs) for (const end of pair) end.destroy()
    this.#server.close()
  }
}
