// The inside of this room, for tests and benchmarks. No file of src imports it.
export type { StructureUse } from './compile/chain-plan.js'
export { compileRoute } from './compile/compile.js'
export type { DesiredFrontend, DesiredRoute } from './compile/desired.js'
export { type DesiredElement, elementsOf } from './compile/elements.js'
export { maxEndpoints, schemaOf } from './compile/schema.js'
export { type Structure, compileStructure } from './compile/structure.js'
export { describeDesired } from './describe.js'
export { NftTable } from './tables/table.js'
