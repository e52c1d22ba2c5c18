import { constants } from 'node:os'
import { KernelError } from '../../src/errors.js'
import type { Link, LinkEvent, Links, LinkWatch } from '../../src/kernel/route/routes.js'
import type { ModelLink, ModelNetwork } from './network.js'

function refusal(operation: string, errno: number, object: string): KernelError {
  return new KernelError({ errno, subsystem: 'route', operation, object })
}

function asLink({ name, index, kind, isUp }: ModelLink): Link {
  return { name, index, kind, isUp }
}

/** Links in memory. */
export class ModelLinks implements Links {
  readonly #network: ModelNetwork
  readonly #hasDummyModule: boolean
  readonly #watches = new Set<ModelLinkWatch>()
  #isClosed = false

  constructor(network: ModelNetwork, hasDummyModule: boolean) {
    this.#network = network
    this.#hasDummyModule = hasDummyModule
  }

  async list(): Promise<readonly Link[]> {
    this.#enter('dump links')
    return [...this.#network.links.values()].map(asLink)
  }

  async find(name: string): Promise<Link | undefined> {
    return (await this.list()).find((link) => link.name === name)
  }

  async addDummy(name: string): Promise<Link> {
    this.#enter('add dummy device')
    const link = this.#hasDummyModule ? this.#network.addDummy(name) : constants.errno.EOPNOTSUPP
    if (typeof link === 'number') throw refusal('add dummy device', link, name)
    return asLink(link)
  }

  async setUp(index: number): Promise<void> {
    this.#enter('set interface up')
    const errno = this.#network.setUp(index)
    if (errno !== 0) throw refusal('set interface up', errno, `interface ${index}`)
  }

  async remove(index: number): Promise<void> {
    this.#enter('remove interface')
    const errno = this.#network.removeLink(index)
    if (errno !== 0) throw refusal('remove interface', errno, `interface ${index}`)
  }

  watch(): LinkWatch {
    this.#enter('watch links')
    const watch = new ModelLinkWatch(this.#network, () => this.#watches.delete(watch))
    this.#watches.add(watch)
    return watch
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await Promise.all([...this.#watches].map((watch) => watch.close()))
  }

  #enter(operation: string): void {
    if (this.#isClosed) throw refusal(operation, constants.errno.EBADF, 'a closed socket')
  }
}

class ModelLinkWatch implements LinkWatch {
  readonly #network: ModelNetwork
  readonly #forget: () => void
  #events: LinkEvent[] = []
  #isClosed = false
  /** Resumes the waiting next(). */
  #wake: () => void = () => {}

  constructor(network: ModelNetwork, forget: () => void) {
    this.#network = network
    this.#forget = forget
    network.listeners.add(this.#listen)
  }

  async next(): Promise<readonly LinkEvent[] | undefined> {
    if (this.#events.length === 0 && !this.#isClosed)
      await new Promise<void>((resume) => {
        this.#wake = resume
      })
    if (this.#isClosed) return undefined
    const events = this.#events
    this.#events = []
    return events
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#network.listeners.delete(this.#listen)
    this.#forget()
    this.#wake()
  }

  readonly #listen = (event: LinkEvent): void => {
    this.#events.push(event)
    this.#wake()
  }
}
