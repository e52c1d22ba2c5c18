import { openModelKernel } from '../../src/kernel/model/index.js'
import { ipvsContract } from './ipvs.contract.js'
import { linksContract } from './links.contract.js'
import { routesContract } from './routes.contract.js'
import { sysctlContract } from './sysctl.contract.js'
import { openModelSubject } from './xtables-subjects.js'
import { xtablesContract } from './xtables.contract.js'

ipvsContract('model', () => openModelKernel().ipvs)
routesContract('model', () => openModelKernel().routes)
linksContract('model', openModelKernel, true)
sysctlContract('model', () => openModelKernel().sysctl)
xtablesContract('model', openModelSubject)
