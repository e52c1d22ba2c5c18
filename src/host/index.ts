// In: the configuration, the kernel. Out: the machine's kernel settings; facts about its kernel and its network interfaces.
// Never: Services, proxy modes, the objects that a mode programs.
// Owner of: nothing. Each call asks the kernel.
// Read next: kernel-settings.ts, conntrack-settings.ts, families.ts, find-xtables.ts, machine-addresses.ts.
export { setConntrack } from './conntrack-settings.js'
export { findFamilies } from './families.js'
export { familiesWithXtables, findsInvalid, isWithoutXtables } from './find-xtables.js'
export { countCpus } from './cpus.js'
export { inOrder } from './in-order.js'
export {
  type KernelSetting,
  type SettingKernel,
  type SettingOutcome,
  ensureSetting,
} from './kernel-settings.js'
export { dummyDeviceName, machineAddresses } from './machine-addresses.js'
export { isSysfsReadOnly } from './mounts.js'
