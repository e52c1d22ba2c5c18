// All contracts on a kernel with IP_VS and the dummy device (scripts/guest.mjs), in its own namespace.
import { openRealKernel } from './real-kernel.js'
import { requireFreshNamespace } from './fresh-namespace.js'
import { openRealIpset } from './ipset-subjects.js'
import { ipsetContract } from './ipset.contract.js'
import { ipvsContract } from './ipvs.contract.js'
import { openRealLook } from './kernel-look-subjects.js'
import { kernelLookContract } from './kernel-look.contract.js'
import { linksContract } from './links.contract.js'
import { routesContract } from './routes.contract.js'
import { sysctlContract } from './sysctl.contract.js'

requireFreshNamespace()
ipvsContract('kernel', () => openRealKernel().ipvs)
ipsetContract('kernel', openRealIpset)
routesContract('kernel', () => openRealKernel().routes)
linksContract('kernel', openRealKernel, true)
kernelLookContract('kernel', openRealLook, { hasIpvs: true })
sysctlContract('kernel', () => openRealKernel().sysctl)
