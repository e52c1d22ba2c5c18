// The whole contract, on a kernel with IP_VS and the dummy device (scripts/guest.mjs), in a namespace of its own.
import { openKernel } from '../../src/kernel/index.js'
import { requireFreshNamespace } from './fresh-namespace.js'
import { ipvsContract } from './ipvs.contract.js'
import { linksContract } from './links.contract.js'
import { routesContract } from './routes.contract.js'
import { sysctlContract } from './sysctl.contract.js'

requireFreshNamespace()
ipvsContract('kernel', () => openKernel().ipvs)
routesContract('kernel', () => openKernel().routes)
linksContract('kernel', openKernel, true)
sysctlContract('kernel', () => openKernel().sysctl)
