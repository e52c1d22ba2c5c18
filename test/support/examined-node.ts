// A node for checks of files that a network namespace of a test cannot change.
import { resolveConfig } from '../../src/config/index.js'
import type { Examined } from '../../src/doctor/index.js'
import { openModelKernel } from '../model/index.js'

const refuse = async (): Promise<never> => await Promise.reject(new Error('not here'))
const peerCredentials = (): never => {
  throw new Error('not here')
}

/** A node with these files. Its kernel cannot read the rules of other programs. */
export function examinedNode(files: Readonly<Record<string, string>>): Examined {
  const parts = { calls: new Map(), close: async () => {}, hurry: () => {}, notifyServiceManager: () => {} }
  return {
    config: resolveConfig({ manifests: 'none' }),
    nodeName: 'node-a',
    agent: {
      socket: '/no/socket',
      silence: undefined,
      status: undefined,
      origin: undefined,
      ownBuild: { version: '1', commit: 'a' },
    },
    kernel: {
      ...openModelKernel(),
      ...parts,
      peerCredentials,
      listTable: refuse,
      activeChains: refuse,
      firewall: refuse,
      findMarkUses: refuse,
      policyRules: refuse,
      clockStatus: () => 0,
    },
    modes: {
      chosen: 'nftables',
      flavour: 'nft',
      flavourReason: '',
      problem: undefined,
      denied: undefined,
      notLoaded: [],
      locked: [],
      unknown: [],
      others: [],
      settings: [],
    },
    unknownParts: [],
    api: undefined,
    sourceProblem: undefined,
    read: async (path) => await Promise.resolve(files[path]),
    xtablesLock: { path: '/run/xtables.lock', id: undefined },
    wait: async () => {},
    seesAllProcesses: true,
    processes: [],
    unplacedProcesses: [],
    canAskSockets: true,
    inputWarnings: [],
  }
}
