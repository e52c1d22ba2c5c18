// In: the configuration, the kernel. Out: the machine's kernel settings; facts about its kernel and its network interfaces.
// Never: Services, proxy modes, the objects that a mode programs.
// Owner of: nothing. Each call reads the machine again.
// Read next: kernel-settings.ts, conntrack-settings.ts, iptables-flavour.ts, find-xtables.ts, machine-addresses.ts.
export { type Capability, firstFreePort, hasCapability } from './capabilities.js'
export { setConntrack } from './conntrack-settings.js'
export { findFamilies } from './families.js'
export { familiesWithXtables, findsInvalid, isWithoutXtables } from './find-xtables.js'
export { countCpus } from './cpus.js'
export {
  type ChosenFlavour,
  chooseFlavour,
  type FlavourKernel,
  kubeletSigns,
  otherFlavour,
  placeName,
  standingServices,
} from './iptables-flavour.js'
export { reportReturnedDevice } from './returned-device.js'
export { decidingRules, rulesBeforeServices } from './nat-rules.js'
export {
  filesWithTable,
  realFiles,
  reportSavedTables,
  type SavedFiles,
  savedTableConsequence,
  savedTableRemedy,
} from './saved-rules.js'
export { acceptingCommand, NftConflicts } from './nft-conflicts.js'
export { openConflicts, OtherFlavour } from './other-flavour.js'
export { isWithoutNftCompat, requireNftCompat } from './nft-compat.js'
export { inOrder } from './in-order.js'
export {
  type KernelSetting,
  type SettingKernel,
  type SettingOutcome,
  ensureSetting,
} from './kernel-settings.js'
export {
  dummyDeviceName,
  machineAddresses,
  outgoingAddresses,
  readMachineAddresses,
} from './machine-addresses.js'
export { routeLocalnet, takeBackLocalnet } from './route-localnet.js'
export { isSysfsReadOnly } from './mounts.js'
