import type { ApiError } from '../../api/index.js'
import { type LinkParts, OptionalLink } from './optional-link.js'
import type { ReflectorOptions } from './reflector.js'
import { serviceCidrResources } from './resources.js'

const [forbidden, notFound] = [403, 404]

/** The link of ServiceCIDRs. Delivers `service-cidrs-listed` once, when they are listed, or are known to be not readable. */
export function serviceCidrLink(parts: LinkParts & Pick<ReflectorOptions, 'deliver'>): OptionalLink {
  let wasListed = false
  const link = new OptionalLink({
    ...parts,
    resources: serviceCidrResources,
    finalStatuses: [forbidden, notFound],
    lines: {
      problemLine: 'ServiceCIDRs are not read; packets to unused cluster IPs may not be dropped',
      recovery: 'ServiceCIDRs are read',
    },
    reasonOf,
    progressed: () => {
      if (wasListed || !link.isListed) return
      wasListed = true
      parts.deliver([{ type: 'service-cidrs-listed' }])
    },
  })
  return link
}

function reasonOf({ status }: ApiError): string {
  if (status === notFound) return 'the API server has none (Kubernetes before 1.31, or the API is disabled)'
  return 'the account may not list and watch servicecidrs of networking.k8s.io: bind it to the role system:node-proxier of Kubernetes 1.33'
}
