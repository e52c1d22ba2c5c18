// The contract on the kernel of this machine: what needs neither IP_VS nor a dummy device. Run it in a namespace of its
// own: unshare -n sh -c 'ip link set lo up && node --test out/ts/test/contract/kernel-host.test.js'
import { openRealKernel } from './real-kernel.js'
import { requireFreshNamespace } from './fresh-namespace.js'
import { linksContract } from './links.contract.js'
import { routesContract } from './routes.contract.js'
import { sysctlContract } from './sysctl.contract.js'

requireFreshNamespace()
routesContract('kernel', () => openRealKernel().routes)
linksContract('kernel', openRealKernel, false)
sysctlContract('kernel', () => openRealKernel().sysctl)
