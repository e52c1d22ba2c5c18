import type { IpFamily } from '../../address.js'
import { logFamily } from '../../engine/index.js'
import { serviceReference } from '../../event.js'
import type { Problem, StateReporter } from '../../log.js'
import type { ServicePortKey } from '../../model/index.js'
import type { Route } from '../../routing/index.js'
import { relayProtocolOf } from '../../layers/relay/index.js'

/** Reports the service ports of one family whose protocol the mode does not serve: SCTP. */
export class UnservedPorts {
  readonly #family: IpFamily
  readonly #warnings: StateReporter
  readonly #reported = new Set<ServicePortKey>()

  constructor(family: IpFamily, warnings: StateReporter) {
    this.#family = family
    this.#warnings = warnings
  }

  /** Takes in the route of a service port; undefined: it was deleted. */
  note(key: ServicePortKey, decided: Pick<Route, 'service' | 'protocol'> | undefined): void {
    const problem = `protocol ${this.#family} ${key}`
    if (decided !== undefined && relayProtocolOf(decided) === undefined) {
      this.#reported.add(key)
      this.#warnings.report(problem, this.#problemOf(key, decided.service))
    } else if (this.#reported.delete(key)) this.#warnings.forget(problem)
  }

  #problemOf(key: ServicePortKey, service: string): Problem {
    const text = `Service port ${key}: userspace mode does not serve SCTP`
    const [namespace = '', name = ''] = service.split('/')
    return {
      text,
      fields: { service: key, ipFamily: logFamily(this.#family) },
      event: {
        type: 'Warning',
        reason: 'ProtocolNotServed',
        action: 'Sync',
        regarding: serviceReference(namespace, name),
        note: text,
      },
    }
  }
}
