/** A script to load before the launcher (`--require`). It prints whether V8 refused the bytecode. */
export const bytecodeProbe = `const vm = require('node:vm')
vm.Script = class extends vm.Script {
  constructor(...args) {
    super(...args)
    console.log('bytecode refused:', this.cachedDataRejected)
  }
}`
