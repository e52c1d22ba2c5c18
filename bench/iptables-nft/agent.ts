import type { AgentMode } from '../stage/agent-run.js'

/** iptables mode on a node whose x_tables live in nf_tables. */
export const agent: AgentMode = { mode: 'iptables', flavour: 'nft' }
