// In: the configuration, the kernel. Out: the machine's kernel settings; facts about its kernel and its network interfaces.
// Never: Services, proxy modes, the objects that a mode programs.
// Owner of: nothing. Each call reads the machine again.
// Read next: kernel-settings.ts, conntrack-settings.ts, families.ts, iptables-flavour.ts, conflicts.ts, machine-addresses.ts.
export { type Capability, firstFreePort, hasCapability } from './capabilities.js'
export { setConntrack, countCpus, isSysfsReadOnly, findsInvalid } from './conntrack-settings.js'
export {
  findFamilies,
  familiesWithXtables,
  isWithoutXtables,
  isWithoutNftCompat,
  requireNftCompat,
  inOrder,
} from './families.js'
export {
  type ChosenFlavour,
  chooseFlavour,
  type FlavourKernel,
  kubeletSigns,
  otherFlavour,
  placeName,
  standingServices,
} from './iptables-flavour.js'
export {
  reportReturnedDevice,
  acceptingCommand,
  NftConflicts,
  openConflicts,
  OtherFlavour,
} from './conflicts.js'
export { decidingRules, rulesBeforeServices } from './nat-rules.js'
export {
  filesWithTable,
  realFiles,
  reportSavedTables,
  type SavedFiles,
  savedTableConsequence,
  savedTableRemedy,
} from './saved-rules.js'
export {
  type KernelSetting,
  type SettingKernel,
  type SettingOutcome,
  ensureSetting,
  routeLocalnet,
  takeBackLocalnet,
} from './kernel-settings.js'
export {
  dummyDeviceName,
  machineAddresses,
  outgoingAddresses,
  readMachineAddresses,
} from './machine-addresses.js'
